"""Many threads at once: what every test of shared objects needs."""

from concurrent.futures import ThreadPoolExecutor


def together(work, items):
    """`work` of every item, each in a thread of its own, all at the same time; what one raises is raised."""
    items = list(items)
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(work, items))
