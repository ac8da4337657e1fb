/* Calls of compiled graphs from Python: `Region`, which runs the groups of a region on tensors, `SizedRegion`, which
   does so at any sizes, and `Watch`, which keeps what was computed of tensors until one of them changes.
   polydl/torch_backend/calls_in_python.py has them in Python, for where this file cannot be compiled; tests hold them
   equal.

   Addresses of tensors come from torch.Tensor.__dlpack_c_exchange_api__ (DLPack 1.3): nothing of torch is included. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <omp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <sys/mman.h>

typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct {
    uint32_t major, minor;
    void *previous;
    void *allocate, *from_object, *to_object;
    int (*view)(void *object, DLTensor *out);
    void *stream;
} Exchange;

static const Exchange *exchange;
static PyTypeObject *tensor_type;
static PyObject *empty_strided, *get_num_threads, *version_name;
static int forked; /* whether this process may have lost the threads of the one that it was forked from */
static int used;   /* whether groups have run */

/* What a tensor is, and the address of its first element in `out`; -1 with an exception. */
static int view_of(PyObject *object, DLTensor *view, void **out)
{
    if (!PyObject_TypeCheck(object, tensor_type)) {
        PyErr_Format(PyExc_TypeError, "a compiled graph takes tensors, not %s", Py_TYPE(object)->tp_name);
        return -1;
    }
    if (exchange->view(object, view)) return -1;
    *out = view->data ? (char *)view->data + view->byte_offset : NULL;
    return 0;
}

static int address_of(PyObject *object, void **out)
{
    DLTensor view;
    return view_of(object, &view, out);
}

/* ---- Region ---- */

typedef struct {
    void (*function)(void *const *);
    int count, *indices;
} Call;

/* Of an input that holds indices: what its elements may be. */
typedef struct {
    int input, bytes, dimensions;
    int64_t *sizes, *strides; /* in elements */
    int64_t least, most;
} Bound;

typedef struct Arena {
    struct Arena *next;
    size_t bytes;
    char *memory;
} Arena;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Py_ssize_t inputs, outputs, inner, calls, widest;
    PyObject **make; /* of each output: tuple (sizes, strides, dtype) */
    size_t *offsets; /* of each inner value in the arena */
    size_t arena_bytes;
    Call *call;
    int release;
    Py_ssize_t bounds;
    Bound *bound;
    Arena *arenas; /* that no call uses; the interpreter's lock guards the list */
    PyObject *owners;
    Py_ssize_t made;     /* arenas in all */
    int64_t *sizes;      /* for which a sized region made it, behind their number, or none */
} Region;

static Arena *arena_new(size_t bytes)
{
    Arena *arena = malloc(sizeof *arena);
    size_t whole = (bytes + 63) / 64 * 64, align = 64;
    if (!arena) return NULL;
    if (whole >= (size_t)2 << 20) align = (size_t)2 << 20, whole = (whole + align - 1) / align * align;
    arena->next = NULL, arena->bytes = whole;
    arena->memory = aligned_alloc(align, whole);
    if (!arena->memory) {
        free(arena);
        return NULL;
    }
    if (align > 64) madvise(arena->memory, whole, MADV_HUGEPAGE);
    return arena;
}

static void arena_free(Arena *arena)
{
    free(arena->memory);
    free(arena);
}

static void run_calls(const Region *self, void *const *all, void **some)
{
    for (Py_ssize_t k = 0; k < self->calls; k++) {
        const Call *call = &self->call[k];
        for (int i = 0; i < call->count; i++) some[i] = all[call->indices[i]];
        call->function(some);
    }
}

/* Whether all elements are within the bounds; the first that is not in `wrong`. */
static int within(const Bound *bound, const char *from, int dimension, int64_t *wrong)
{
    if (dimension == bound->dimensions) {
        int64_t index = bound->bytes == 8 ? *(const int64_t *)from : *(const int32_t *)from;
        *wrong = index;
        return index >= bound->least && index <= bound->most;
    }
    int64_t many = bound->sizes[dimension];
    if (dimension == bound->dimensions - 1) { /* without a branch for each element; the wrong one is looked for below */
        int64_t step = bound->strides[dimension], least = bound->least, most = bound->most, outside = 0;
        if (bound->bytes == 8) {
            const int64_t *of = (const int64_t *)from;
            for (int64_t i = 0; i < many; i++) outside |= (of[i * step] < least) | (of[i * step] > most);
        } else {
            const int32_t *of = (const int32_t *)from;
            for (int64_t i = 0; i < many; i++) outside |= (of[i * step] < least) | (of[i * step] > most);
        }
        if (!outside) return 1;
    }
    for (int64_t i = 0; i < many; i++)
        if (!within(bound, from + i * bound->strides[dimension] * bound->bytes, dimension + 1, wrong)) return 0;
    return 1;
}

static PyObject *region_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Region *self = (Region *)object;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf), total = self->inputs + self->outputs + self->inner;
    if (given != self->inputs || (names && PyTuple_GET_SIZE(names))) {
        PyErr_Format(PyExc_TypeError, "this region takes %zd tensors, not %zd", self->inputs, given);
        return NULL;
    }
    void *few[96], **all = few;
    if (total + self->widest > 96 && !(all = malloc(sizeof *all * (total + self->widest)))) return PyErr_NoMemory();
    Arena *arena = NULL;
    PyObject *result = NULL, *threads = NULL;
    for (Py_ssize_t i = 0; i < given; i++)
        if (address_of(args[i], &all[i])) goto done;
    for (Py_ssize_t i = 0; i < self->bounds; i++) {
        const Bound *bound = &self->bound[i];
        int64_t wrong;
        if (!within(bound, all[bound->input], 0, &wrong)) {
            PyErr_Format(PyExc_IndexError, "index %lld is not between %lld and %lld", (long long)wrong,
                         (long long)bound->least, (long long)bound->most);
            goto done;
        }
    }
    result = PyTuple_New(self->outputs);
    if (!result) goto done;
    for (Py_ssize_t i = 0; i < self->outputs; i++) {
        PyObject *one = PyObject_Call(empty_strided, self->make[i], NULL);
        if (!one || address_of(one, &all[given + i])) {
            Py_XDECREF(one);
            Py_CLEAR(result);
            goto done;
        }
        PyTuple_SET_ITEM(result, i, one);
    }
    threads = PyObject_CallNoArgs(get_num_threads); /* a new thread gets torch's number of OpenMP threads by this */
    if (!threads) {
        Py_CLEAR(result);
        goto done;
    }
    Py_DECREF(threads);
    if (self->arena_bytes) {
        size_t room = 0;
        if ((arena = self->arenas)) {
            self->arenas = arena->next;
            if (arena->bytes < self->arena_bytes) { /* sizes that grow go on growing */
                room = self->arena_bytes / 4;
                arena_free(arena);
                arena = NULL;
            }
        }
        if (!arena) {
            arena = arena_new(self->arena_bytes + room);
            self->made += arena != NULL;
        }
        if (!arena) {
            Py_CLEAR(result);
            PyErr_NoMemory();
            goto done;
        }
        for (Py_ssize_t i = 0; i < self->inner; i++)
            all[given + self->outputs + i] = arena->memory + self->offsets[i];
    }
    int before = 0;
    if (forked) before = omp_get_max_threads(), omp_set_num_threads(1);
    used = 1;
    if (self->release) {
        Py_INCREF(object);
        Py_BEGIN_ALLOW_THREADS
        run_calls(self, all, all + total);
        Py_END_ALLOW_THREADS
        Py_DECREF(object);
    } else
        run_calls(self, all, all + total);
    if (before) omp_set_num_threads(before);
    if (arena) {
        arena->next = self->arenas;
        self->arenas = arena;
    }
    if (self->outputs == 1) {
        PyObject *one = PyTuple_GET_ITEM(result, 0);
        Py_INCREF(one);
        Py_DECREF(result);
        result = one;
    }
done:
    if (all != few) free(all);
    return result;
}

static int indices_of(PyObject *tuple, Call *call, Py_ssize_t below)
{
    call->count = (int)PyTuple_GET_SIZE(tuple);
    call->indices = malloc(sizeof(int) * (call->count ? call->count : 1));
    if (!call->indices) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < call->count; i++) {
        long index = PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
        if (index == -1 && PyErr_Occurred()) return -1;
        if (index < 0 || index >= below) {
            PyErr_Format(PyExc_ValueError, "no value %ld in a region of %zd", index, below);
            return -1;
        }
        call->indices[i] = (int)index;
    }
    return 0;
}

/* Reads a bound from (input, bytes, sizes, strides, least, most). */
static int bound_of(PyObject *tuple, Bound *bound, Py_ssize_t inputs)
{
    PyObject *sizes, *strides;
    long long least, most;
    if (!PyArg_ParseTuple(tuple, "iiO!O!LL", &bound->input, &bound->bytes, &PyTuple_Type, &sizes, &PyTuple_Type,
                          &strides, &least, &most))
        return -1;
    bound->least = least, bound->most = most, bound->dimensions = (int)PyTuple_GET_SIZE(sizes);
    if (bound->input < 0 || bound->input >= inputs || PyTuple_GET_SIZE(strides) != bound->dimensions) {
        PyErr_Format(PyExc_ValueError, "no input %d in a region of %zd", bound->input, inputs);
        return -1;
    }
    bound->sizes = malloc(sizeof(int64_t) * (2 * bound->dimensions + 1));
    if (!bound->sizes) {
        PyErr_NoMemory();
        return -1;
    }
    bound->strides = bound->sizes + bound->dimensions;
    for (int i = 0; i < bound->dimensions; i++) {
        bound->sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
        bound->strides[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Region(inputs, outputs: ((sizes, strides, dtype), …), offsets: (bytes, …), arena_bytes, calls: ((address, indices),
   …), release, bounds: ((input, bytes, sizes, strides, least, most), …), owners) */
static PyObject *region_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    Py_ssize_t inputs, arena_bytes;
    PyObject *outputs, *offsets, *calls, *bounds, *owners;
    int release;
    if (names && PyDict_GET_SIZE(names)) {
        PyErr_SetString(PyExc_TypeError, "Region takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "nO!O!nO!pO!O", &inputs, &PyTuple_Type, &outputs, &PyTuple_Type, &offsets, &arena_bytes,
                          &PyTuple_Type, &calls, &release, &PyTuple_Type, &bounds, &owners))
        return NULL;
    Region *self = (Region *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = region_call;
    self->inputs = inputs, self->arena_bytes = (size_t)arena_bytes, self->release = release;
    self->make = calloc(PyTuple_GET_SIZE(outputs) + 1, sizeof *self->make);
    self->offsets = calloc(PyTuple_GET_SIZE(offsets) + 1, sizeof *self->offsets);
    self->call = calloc(PyTuple_GET_SIZE(calls) + 1, sizeof *self->call);
    self->bound = calloc(PyTuple_GET_SIZE(bounds) + 1, sizeof *self->bound);
    Py_INCREF(owners);
    self->owners = owners;
    if (!self->make || !self->offsets || !self->call || !self->bound) {
        PyErr_NoMemory();
        goto failed;
    }
    for (; self->outputs < PyTuple_GET_SIZE(outputs); self->outputs++) {
        self->make[self->outputs] = PyTuple_GET_ITEM(outputs, self->outputs);
        Py_INCREF(self->make[self->outputs]);
    }
    for (; self->inner < PyTuple_GET_SIZE(offsets); self->inner++) {
        self->offsets[self->inner] = PyLong_AsSize_t(PyTuple_GET_ITEM(offsets, self->inner));
        if (PyErr_Occurred()) goto failed;
    }
    for (; self->calls < PyTuple_GET_SIZE(calls); self->calls++) {
        PyObject *address, *indices, *one = PyTuple_GET_ITEM(calls, self->calls);
        if (!PyArg_ParseTuple(one, "O!O!", &PyLong_Type, &address, &PyTuple_Type, &indices)) goto failed;
        Call *call = &self->call[self->calls];
        call->function = (void (*)(void *const *))PyLong_AsVoidPtr(address);
        if (PyErr_Occurred() || indices_of(indices, call, inputs + self->outputs + self->inner)) {
            free(call->indices);
            goto failed;
        }
        if (call->count > self->widest) self->widest = call->count;
    }
    while (self->bounds < PyTuple_GET_SIZE(bounds)) {
        Py_ssize_t i = self->bounds++;
        if (bound_of(PyTuple_GET_ITEM(bounds, i), &self->bound[i], inputs)) goto failed;
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static void region_free(PyObject *object)
{
    Region *self = (Region *)object;
    PyTypeObject *type = Py_TYPE(object);
    while (self->arenas) {
        Arena *next = self->arenas->next;
        arena_free(self->arenas);
        self->arenas = next;
    }
    for (Py_ssize_t i = 0; self->make && i < self->outputs; i++) Py_DECREF(self->make[i]);
    for (Py_ssize_t i = 0; self->call && i < self->calls; i++) free(self->call[i].indices);
    for (Py_ssize_t i = 0; self->bound && i < self->bounds; i++) free(self->bound[i].sizes);
    free(self->sizes);
    free(self->bound);
    free(self->make);
    free(self->offsets);
    free(self->call);
    Py_XDECREF(self->owners);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef region_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Region, vectorcall), READONLY, NULL},
    {"arenas", T_PYSSIZET, offsetof(Region, made), READONLY, "Arenas that were made: one for each call at a time."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot region_slots[] = {
    {Py_tp_new, region_new}, {Py_tp_dealloc, region_free}, {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, region_members}, {0, NULL},
};
static PyType_Spec region_spec = {
    "polydl_torch_call.Region", sizeof(Region), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, region_slots,
};

/* ---- SizedRegion ---- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Py_ssize_t inputs;
    PyObject *outputs, *stack, *calls, *bounds, *owners;
    int release;
    Region *current; /* of the last sizes */
} SizedRegion;

static PyTypeObject *region_type;

/* The value of a list of terms (factor, numbers of sizes that it is multiplied by), or an integer; -1 with an exception
   if it is neither, or reads more sizes than there are. */
static int64_t number_at(PyObject *value, const int64_t *sizes, int64_t count)
{
    if (!PyList_Check(value)) return PyLong_AsLongLong(value);
    int64_t sum = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); i++) {
        PyObject *each;
        long long product;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(value, i), "LO!", &product, &PyTuple_Type, &each)) return -1;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(each); k++) {
            Py_ssize_t n = PyLong_AsSsize_t(PyTuple_GET_ITEM(each, k));
            if (PyErr_Occurred()) return -1;
            if (n < 0 || n >= count) {
                PyErr_Format(PyExc_ValueError, "there is no size %zd of %lld", n, (long long)count);
                return -1;
            }
            product *= sizes[n];
        }
        sum += product;
    }
    return sum;
}

/* Tuples with numbers in place of lists of terms. */
static PyObject *at_sizes(PyObject *value, const int64_t *sizes, int64_t count)
{
    if (PyList_Check(value)) {
        int64_t number = number_at(value, sizes, count);
        return PyErr_Occurred() ? NULL : PyLong_FromLongLong(number);
    }
    if (!PyTuple_Check(value)) return Py_INCREF(value), value;
    PyObject *made = PyTuple_New(PyTuple_GET_SIZE(value));
    for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(value); i++) {
        PyObject *one = at_sizes(PyTuple_GET_ITEM(value, i), sizes, count);
        if (one)
            PyTuple_SET_ITEM(made, i, one);
        else
            Py_CLEAR(made);
    }
    return made;
}

/* The offsets of values in an arena, in which each lies where those end that it is above of; its bytes in `whole`. */
static PyObject *offsets_at(PyObject *stack, const int64_t *sizes, int64_t count, int64_t *whole)
{
    Py_ssize_t values = PyTuple_GET_SIZE(stack);
    int64_t *end = calloc(values + 1, sizeof *end);
    PyObject *made = end ? PyTuple_New(values) : PyErr_NoMemory();
    *whole = 0;
    for (Py_ssize_t i = 0; made && i < values; i++) {
        PyObject *bytes, *below;
        Py_ssize_t number;
        int64_t at = 0, taken = 0;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(stack, i), "nOO!", &number, &bytes, &PyTuple_Type, &below)) break;
        if (number < 0 || number >= values || PyTuple_GET_ITEM(made, number)) {
            PyErr_Format(PyExc_ValueError, "value %zd of %zd cannot be stacked", number, values);
            break;
        }
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(below); k++) {
            Py_ssize_t other = PyLong_AsSsize_t(PyTuple_GET_ITEM(below, k));
            if (PyErr_Occurred()) break;
            if (other < 0 || other >= values || !PyTuple_GET_ITEM(made, other)) {
                PyErr_Format(PyExc_ValueError, "value %zd of %zd is not below", other, values);
                break;
            }
            if (end[other] > at) at = end[other];
        }
        if (!PyErr_Occurred()) taken = number_at(bytes, sizes, count);
        PyObject *offset = PyErr_Occurred() ? NULL : PyLong_FromLongLong(at);
        if (!offset) break;
        PyTuple_SET_ITEM(made, number, offset);
        end[number] = at + (taken + 63) / 64 * 64;
        if (end[number] > *whole) *whole = end[number];
    }
    free(end);
    if (PyErr_Occurred()) Py_CLEAR(made);
    return made;
}

/* The region at these sizes, with the arenas of the one before. */
static Region *region_at(const SizedRegion *self, const int64_t *sizes, int64_t count)
{
    int64_t arena;
    PyObject *outputs = at_sizes(self->outputs, sizes, count), *bounds = NULL, *offsets = NULL, *args = NULL;
    Region *made = NULL;
    if (outputs) bounds = at_sizes(self->bounds, sizes, count);
    if (bounds) offsets = offsets_at(self->stack, sizes, count, &arena);
    if (offsets)
        args = Py_BuildValue("nOOLOiOO", self->inputs, outputs, offsets, (long long)arena, self->calls, self->release,
                             bounds, self->owners);
    if (args) made = (Region *)region_new(region_type, args, NULL);
    Py_XDECREF(args), Py_XDECREF(offsets), Py_XDECREF(bounds), Py_XDECREF(outputs);
    if (!made) return NULL;
    made->sizes = malloc(sizeof *sizes * (count + 1));
    if (!made->sizes) {
        Py_DECREF(made);
        PyErr_NoMemory();
        return NULL;
    }
    made->sizes[0] = count;
    memcpy(made->sizes + 1, sizes, sizeof *sizes * count);
    Region *before = self->current;
    if (before) made->arenas = before->arenas, made->made = before->made, before->arenas = NULL;
    return made;
}

static PyObject *sized_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    SizedRegion *self = (SizedRegion *)object;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    DLTensor view;
    void *address;
    if (given != self->inputs) {
        PyErr_Format(PyExc_TypeError, "this region takes %zd tensors, not %zd", self->inputs, given);
        return NULL;
    }
    if (view_of(args[given - 1], &view, &address)) return NULL;
    if (view.ndim != 1 || view.bits != 64) {
        PyErr_SetString(PyExc_TypeError, "the sizes of a region are 64-bit integers in a row");
        return NULL;
    }
    int64_t count = view.shape[0];
    Region *region = self->current;
    if (!region || region->sizes[0] != count || memcmp(region->sizes + 1, address, sizeof(int64_t) * count)) {
        region = region_at(self, address, count);
        if (!region) return NULL;
        Region *before = self->current;
        self->current = region;
        Py_XDECREF(before);
    }
    Py_INCREF(region); /* another call may put another one in its place meanwhile */
    PyObject *result = region_call((PyObject *)region, args, nargsf, names);
    Py_DECREF(region);
    return result;
}

/* SizedRegion(inputs, outputs, stack: ((number, bytes, numbers below), …), calls, release, bounds, owners): see
   calls_in_python.py. */
static PyObject *sized_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    Py_ssize_t inputs;
    PyObject *outputs, *stack, *calls, *bounds, *owners;
    int release;
    if (names && PyDict_GET_SIZE(names)) {
        PyErr_SetString(PyExc_TypeError, "SizedRegion takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "nO!O!O!pO!O", &inputs, &PyTuple_Type, &outputs, &PyTuple_Type, &stack, &PyTuple_Type,
                          &calls, &release, &PyTuple_Type, &bounds, &owners))
        return NULL;
    if (inputs < 1) {
        PyErr_SetString(PyExc_ValueError, "a region of any size is given its sizes");
        return NULL;
    }
    SizedRegion *self = (SizedRegion *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    Py_INCREF(outputs), Py_INCREF(stack), Py_INCREF(calls), Py_INCREF(bounds), Py_INCREF(owners);
    self->vectorcall = sized_call, self->inputs = inputs, self->release = release;
    self->outputs = outputs, self->stack = stack, self->calls = calls, self->bounds = bounds, self->owners = owners;
    return (PyObject *)self;
}

static void sized_free(PyObject *object)
{
    SizedRegion *self = (SizedRegion *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->current);
    Py_XDECREF(self->outputs), Py_XDECREF(self->stack), Py_XDECREF(self->calls);
    Py_XDECREF(self->bounds), Py_XDECREF(self->owners);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *sized_arenas(PyObject *object, void *unused)
{
    Region *current = ((SizedRegion *)object)->current;
    (void)unused;
    return PyLong_FromSsize_t(current ? current->made : 0);
}

static PyMemberDef sized_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(SizedRegion, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef sized_computed[] = {
    {"arenas", sized_arenas, NULL, "Arenas that were made: one for each call at a time, another where sizes grew.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot sized_slots[] = {
    {Py_tp_new, sized_new}, {Py_tp_dealloc, sized_free}, {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, sized_members}, {Py_tp_getset, sized_computed}, {0, NULL},
};
static PyType_Spec sized_spec = {
    "polydl_torch_call.SizedRegion", sizeof(SizedRegion), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    sized_slots,
};

/* ---- Watch ---- */

/* Elements of a tensor that are looked at in each call: all of a small one, else as many as SAMPLES, spread over it.
   PyTorch does not count every change: not those of `.data`, of NumPy, of some of its own fused kernels. */
enum { ALL = 256, SAMPLES = 32 };

typedef struct {
    PyObject *tensor, *storage;
    void *address;
    long version;
    uint64_t layout, sample;
    Py_ssize_t samples;
    int64_t *places; /* of the elements that are looked at: bytes from the first one */
} Record;

static uint64_t mixed(uint64_t so_far, uint64_t more)
{
    so_far = (so_far ^ more) * 0x9E3779B97F4A7C15u;
    return so_far ^ so_far >> 32;
}

/* Of sizes, strides and type. */
static uint64_t layout_of(const DLTensor *view)
{
    uint64_t found = mixed(view->ndim, (uint64_t)view->code << 8 | view->bits);
    for (int i = 0; i < view->ndim; i++) found = mixed(mixed(found, view->shape[i]), view->strides[i]);
    return found;
}

/* Chooses what is looked at: nothing of a tensor that is not in main memory. -1 without memory. */
static int choose_places(Record *record, const DLTensor *view)
{
    enum { CPU = 1 };
    int64_t elements = 1;
    int bytes = view->bits * view->lanes / 8;
    for (int i = 0; i < view->ndim; i++) elements *= view->shape[i];
    if (view->device_type != CPU || !record->address || bytes > 16) elements = 0;
    record->samples = elements <= ALL ? elements : SAMPLES;
    record->places = malloc(sizeof *record->places * (record->samples + 1));
    if (!record->places) return -1;
    for (int64_t k = 0, each = elements / SAMPLES; k < record->samples; k++) {
        int64_t place = elements <= ALL ? k : k + 1 == SAMPLES ? elements - 1 : each * k + mixed(1, k) % each, at = 0;
        for (int i = view->ndim - 1; i >= 0; i--) {
            at += place % view->shape[i] * view->strides[i];
            place /= view->shape[i];
        }
        record->places[k] = at * bytes;
    }
    return 0;
}

static uint64_t sample_of(const Record *record, const DLTensor *view)
{
    uint64_t found = 0, words[2] = {0, 0};
    size_t bytes = view->bits * view->lanes / 8;
    const char *from = record->address;
    for (Py_ssize_t k = 0; k < record->samples; k++) {
        switch (bytes) {
        case 4: words[0] = *(const uint32_t *)(from + record->places[k]); break;
        case 2: words[0] = *(const uint16_t *)(from + record->places[k]); break;
        case 8: words[0] = *(const uint64_t *)(from + record->places[k]); break;
        default:
            memcpy(words, from + record->places[k], bytes);
            words[0] ^= mixed(bytes, words[1]);
        }
        found += (words[0] ^ words[0] >> 29) * (2 * k + 1); /* no element waits for the one before */
    }
    return found;
}

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *compute, *result, *storage_name, *weakrefs;
    Py_ssize_t count;
    Record *records;
    Py_ssize_t computed;
} Watch;

static void records_free(Record *records, Py_ssize_t count)
{
    if (!records) return;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(records[i].tensor);
        Py_XDECREF(records[i].storage);
        free(records[i].places);
    }
    free(records);
}

/* A tensor's version counter; -1 if it has none (inference tensors), -2 with an exception. */
static long version_of(PyObject *tensor)
{
    PyObject *found = PyObject_GetAttr(tensor, version_name);
    if (!found) {
        if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return -2;
        PyErr_Clear();
        return -1;
    }
    long version = PyLong_AsLong(found);
    Py_DECREF(found);
    return version == -1 && PyErr_Occurred() ? -2 : version;
}

static PyObject *watch_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Watch *self = (Watch *)object;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    if (names && PyTuple_GET_SIZE(names)) {
        PyErr_SetString(PyExc_TypeError, "Watch takes no names");
        return NULL;
    }
    if (self->result && count == self->count) {
        Py_ssize_t i = 0;
        for (; i < count; i++) {
            const Record *record = &self->records[i];
            void *address;
            DLTensor view;
            if (args[i] != record->tensor) break;
            if (view_of(args[i], &view, &address)) return NULL;
            if (address != record->address || layout_of(&view) != record->layout) break;
            if (sample_of(record, &view) != record->sample) break;
            long version = version_of(args[i]); /* may run Python: the view is used before */
            if (version == -2) return NULL;
            if (version < 0 || version != record->version) break;
        }
        if (i == count) {
            Py_INCREF(self->result);
            return self->result;
        }
    }
    /* Versions are read before anything is computed: what is changed meanwhile has another one at the next call. */
    Record *records = calloc(count + 1, sizeof *records);
    int lasting = 1;
    if (!records) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        Record *record = &records[i];
        DLTensor view;
        if (view_of(args[i], &view, &record->address)) goto failed;
        record->layout = layout_of(&view);
        if (choose_places(record, &view)) {
            PyErr_NoMemory();
            goto failed;
        }
        record->sample = sample_of(record, &view);
        record->version = version_of(args[i]);
        if (record->version == -2) goto failed;
        if (record->version < 0) lasting = 0;
        record->storage = PyObject_CallMethodNoArgs(args[i], self->storage_name);
        if (!record->storage) goto failed;
        Py_INCREF(args[i]);
        record->tensor = args[i];
    }
    PyObject *result = PyObject_Vectorcall(self->compute, args, count, NULL);
    if (!result) goto failed;
    self->computed++;
    if (!lasting) {
        records_free(records, count);
        return result;
    }
    Record *old = self->records;
    PyObject *old_result = self->result;
    Py_ssize_t old_count = self->count;
    Py_INCREF(result);
    self->records = records, self->count = count, self->result = result;
    records_free(old, old_count);
    Py_XDECREF(old_result);
    return result;
failed:
    records_free(records, count);
    return NULL;
}

static int watch_clear(PyObject *object)
{
    Watch *self = (Watch *)object;
    Record *old = self->records;
    Py_ssize_t count = self->count;
    self->records = NULL, self->count = 0;
    Py_CLEAR(self->result);
    records_free(old, count);
    return 0;
}

static int watch_clear_all(PyObject *object)
{
    watch_clear(object);
    Py_CLEAR(((Watch *)object)->compute);
    return 0;
}

static PyObject *watch_forget(PyObject *object, PyObject *unused)
{
    (void)unused;
    watch_clear(object);
    Py_RETURN_NONE;
}

/* forget_changed(tensors): what `forget` does if one of a set of tensors was computed with. */
static PyObject *watch_forget_changed(PyObject *object, PyObject *tensors)
{
    Watch *self = (Watch *)object;
    int found = 0;
    for (Py_ssize_t i = 0; i < self->count && !found; i++) {
        PyObject *number = PyLong_FromVoidPtr(self->records[i].tensor); /* id() */
        if (!number) return NULL;
        found = PySet_Contains(tensors, number);
        Py_DECREF(number);
        if (found < 0) return NULL;
    }
    if (found) watch_clear(object);
    Py_RETURN_NONE;
}

static int watch_traverse(PyObject *object, visitproc visit, void *arg)
{
    Watch *self = (Watch *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->compute);
    Py_VISIT(self->result);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_VISIT(self->records[i].tensor);
        Py_VISIT(self->records[i].storage);
    }
    return 0;
}

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *compute;
    if (names && PyDict_GET_SIZE(names)) {
        PyErr_SetString(PyExc_TypeError, "Watch takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O", &compute)) return NULL;
    Watch *self = (Watch *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = watch_call;
    Py_INCREF(compute);
    self->compute = compute;
    self->storage_name = PyUnicode_InternFromString("untyped_storage");
    if (!self->storage_name) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void watch_free(PyObject *object)
{
    Watch *self = (Watch *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->weakrefs) PyObject_ClearWeakRefs(object);
    watch_clear_all(object);
    Py_XDECREF(self->storage_name);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef watch_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Watch, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Watch, weakrefs), READONLY, NULL},
    {"computed", T_PYSSIZET, offsetof(Watch, computed), READONLY, "How many times it was computed."},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef watch_methods[] = {
    {"forget", watch_forget, METH_NOARGS, "Forget the result, so that the next call computes it."},
    {"forget_changed", watch_forget_changed, METH_O, "Forget the result if it was computed of a tensor of these id()s."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot watch_slots[] = {
    {Py_tp_new, watch_new}, {Py_tp_dealloc, watch_free}, {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, watch_members}, {Py_tp_methods, watch_methods}, {Py_tp_traverse, watch_traverse},
    {Py_tp_clear, watch_clear_all}, {0, NULL},
};
static PyType_Spec watch_spec = {
    "polydl_torch_call.Watch", sizeof(Watch), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC, watch_slots,
};

/* ---- the module ---- */

/* setup(tensor type, exchange capsule, empty_strided(sizes, strides, dtype), get_num_threads) */
static PyObject *setup(PyObject *module, PyObject *args)
{
    PyObject *type, *capsule, *empty, *threads;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOO", &PyType_Type, &type, &capsule, &empty, &threads)) return NULL;
    const Exchange *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!found) return NULL;
    if (found->major != 1) {
        PyErr_Format(PyExc_RuntimeError, "DLPack %u.%u is not version 1", found->major, found->minor);
        return NULL;
    }
    Py_INCREF(type), Py_INCREF(empty), Py_INCREF(threads);
    exchange = found, tensor_type = (PyTypeObject *)type, empty_strided = empty, get_num_threads = threads;
    Py_RETURN_NONE;
}

static PyObject *in_child(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    forked |= used;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"setup", setup, METH_VARARGS, "Give the module what it needs of torch."},
    {"in_child", in_child, METH_NOARGS, "After a fork: one thread from now on, if groups have run before it."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "polydl_torch_call", NULL, -1, methods, NULL, NULL, NULL,
                                        NULL};

PyMODINIT_FUNC PyInit_polydl_torch_call(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    version_name = PyUnicode_InternFromString("_version");
    PyObject *region = PyType_FromSpec(&region_spec), *watch = PyType_FromSpec(&watch_spec);
    PyObject *sized = PyType_FromSpec(&sized_spec);
    region_type = (PyTypeObject *)region;
    if (!version_name || !region || !watch || !sized || PyModule_AddObject(module, "Region", Py_NewRef(region)) ||
        PyModule_AddObject(module, "Watch", watch) || PyModule_AddObject(module, "SizedRegion", sized)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
