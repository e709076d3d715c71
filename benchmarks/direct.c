/* The cheapest call from Python: a builtin without arguments, whose own object is a bytes object with all that was bound
   before. */

#include <Python.h>

struct bound {
    void (*run)(long, const void *, void *);
    long n;
    const void *x;
    void *y;
};

PyObject *direct(PyObject *self, PyObject *Py_UNUSED(none)) {
    const struct bound *b = (const struct bound *)PyBytes_AS_STRING(self);
    b->run(b->n, b->x, b->y);
    Py_RETURN_NONE;
}
