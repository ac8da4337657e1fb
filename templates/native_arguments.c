/* Looks at the arguments of a usual call of a kernel, and calls it: what polydl/native/quick_arguments.py asks for.

   Functions of Python come as a table of addresses, so that neither headers nor libraries of Python are needed; all are
   of its stable interface. Addresses of tensors come from torch.Tensor.__dlpack_c_exchange_api__ (DLPack 1.3). */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Object Object;

/* Py_buffer */
typedef struct {
    void *data;
    Object *owner;
    ptrdiff_t bytes, itemsize;
    int readonly, dimensions;
    char *format;
    ptrdiff_t *shape, *strides, *suboffsets;
    void *internal;
} Buffer;
enum { BUFFER_WRITABLE = 0x1, BUFFER_FORMAT = 0x4, BUFFER_SHAPE = 0x8 }; /* row-major: no strides are asked for */

typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;
enum { PROCESSOR = 1, COMPLEX = 5 };

typedef struct {
    uint32_t major, minor;
    void *previous, *allocate, *from_object, *to_object;
    int (*view)(Object *object, Tensor *out);
} Exchange;

/* In the order of quick_arguments._Python. */
typedef struct {
    Object *(*type)(Object *);
    Object *(*item)(Object *tuple, ptrdiff_t);
    double (*number)(Object *);
    int (*buffer)(Object *, Buffer *, int);
    void (*release)(Buffer *);
    Object *(*attribute)(Object *, Object *name);
    Object *(*method)(Object *name, Object *const *arguments, size_t count, Object *names);
    Object *(*call)(Object *, Object *const *arguments, size_t count, Object *names);
    void (*drop)(Object *);
    void (*clear)(void);
    void *(*unlock)(void);
    void (*lock)(void *);
    Object *is_false, *float_type, *array_type;
    Object *requires_grad, *is_neg, *is_conj; /* names */
    /* Of torch; NULL until there are tensors. */
    Object *tensor_type, *parameter_type, *is_grad_enabled;
    const Exchange *exchange;
} Python;

/* What an argument must be; in the order of quick_arguments._Wanted. */
typedef struct {
    int64_t at;         /* among the parameters */
    int64_t float_bytes; /* of a number; 0: an array */
    int64_t dimensions; /* of `shape` */
    int64_t counted;    /* 1: only elements are counted, of any shape; 2: rows, whose shape is `shape`; 0: neither */
    int64_t least;      /* elements or rows */
    int64_t itemsize, written;
    const int64_t *shape;
    const char *const *formats; /* of buffers; ends with NULL */
    const int64_t *dtypes;      /* of tensors: code << 16 | bits; ends with 0 */
} Wanted;

typedef struct {
    int64_t given, apart, fixed;
    const Wanted *wanted;        /* of each given argument */
    const int64_t *pairs;        /* of parameters that must not overlap */
    const int64_t *fixed_at;     /* parameters whose addresses are known */
    void *const *fixed_addresses;
} Usual;

typedef void Call(void *const *arguments, void *result, int threads, const void *packed);

enum { UNUSUAL = 0, DONE = 1, TENSORS_CHANGED = 2, MOST = 64 };

/* 1 if an object's attribute or method of no arguments is `expected`; an exception is cleared. */
static int is(const Python *python, Object *found, Object *expected)
{
    if (found == NULL) {
        python->clear();
        return 0;
    }
    python->drop(found);
    return found == expected;
}

static int fits(const Wanted *wanted, int dimensions, const int64_t *shape, int64_t *elements)
{
    const int rows = wanted->counted == 2;
    *elements = 1;
    for (int d = 0; d < dimensions; d++) *elements *= shape[d];
    if (*elements == 0) return 0;
    if (wanted->counted == 1) return *elements >= wanted->least;
    if (dimensions != wanted->dimensions + rows || (rows && shape[0] < wanted->least)) return 0;
    return memcmp(shape + rows, wanted->shape, sizeof *shape * (size_t)wanted->dimensions) == 0;
}

static int take_array(const Python *python, const Wanted *wanted, Object *array, Buffer *buffer, int64_t *elements)
{
    int64_t shape[MOST];
    int known = 0;
    if (python->buffer(array, buffer, BUFFER_SHAPE | BUFFER_FORMAT | (wanted->written ? BUFFER_WRITABLE : 0))) {
        python->clear();
        return 0;
    }
    for (const char *const *format = wanted->formats; *format; format++) known |= strcmp(*format, buffer->format) == 0;
    for (int d = 0; d < buffer->dimensions && d < MOST; d++) shape[d] = buffer->shape[d];
    if (known && buffer->dimensions <= MOST && fits(wanted, buffer->dimensions, shape, elements)) return 1;
    python->release(buffer);
    return 0;
}

static void *take_tensor(const Python *python, const Wanted *wanted, Object *object, int64_t *elements)
{
    Tensor tensor;
    Object *none[] = {object};
    int known = 0;
    if (python->exchange->view(object, &tensor)) {
        python->clear();
        return NULL;
    }
    for (const int64_t *dtype = wanted->dtypes; *dtype; dtype++) known |= *dtype == (tensor.code << 16 | tensor.bits);
    if (!known || tensor.lanes != 1 || tensor.device_type != PROCESSOR) return NULL;
    if (!fits(wanted, tensor.dimensions, tensor.shape, elements)) return NULL;
    int64_t stride = 1;
    for (int d = tensor.dimensions - 1; tensor.strides && d >= 0; stride *= tensor.shape[d--])
        if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return NULL;
    if (!is(python, python->method(python->is_neg, none, 1, NULL), python->is_false)) return NULL;
    if (tensor.code == COMPLEX && !is(python, python->method(python->is_conj, none, 1, NULL), python->is_false))
        return NULL;
    if (!is(python, python->attribute(object, python->requires_grad), python->is_false) &&
        !is(python, python->call(python->is_grad_enabled, NULL, 0, NULL), python->is_false))
        return NULL;
    return (char *)tensor.data + tensor.byte_offset;
}

/* Fill `addresses` with those of all arguments, from a tuple of the ones given, and, unless it is NULL, call `call`
   without the interpreter's lock. UNUSUAL: nothing was done, since an argument is not quite what it must be. */
__attribute__((visibility("default"))) int polydl_usual_call(
    const Python *python, const Usual *usual, Object *arguments, void **addresses, Call *call, void *result,
    int threads, const void *packed)
{
    Buffer buffers[MOST];
    double doubles[MOST];
    float floats[MOST];
    char *ends[MOST];
    int used = 0, state = UNUSUAL, tensors = 0;
    for (int64_t i = 0; i < usual->given; i++) {
        const Wanted *wanted = &usual->wanted[i];
        Object *object = python->item(arguments, i), *type = python->type(object);
        void *address = NULL;
        int64_t elements = 0;
        python->drop(type); /* the object still refers to it */
        if (wanted->float_bytes) {
            if (type != python->float_type) goto end;
            doubles[i] = python->number(object), floats[i] = (float)doubles[i];
            addresses[wanted->at] = wanted->float_bytes == sizeof(float) ? (void *)&floats[i] : &doubles[i];
            continue;
        }
        if (type == python->array_type) {
            if (!take_array(python, wanted, object, &buffers[used], &elements)) goto end;
            address = buffers[used++].data;
        } else if (python->exchange && (type == python->tensor_type || type == python->parameter_type)) {
            address = take_tensor(python, wanted, object, &elements);
            tensors |= wanted->written != 0;
        }
        if (address == NULL || (uintptr_t)address % (size_t)wanted->itemsize) goto end;
        addresses[wanted->at] = address;
        ends[wanted->at] = (char *)address + elements * wanted->itemsize;
    }
    for (int64_t i = 0; i < usual->apart; i++) {
        const int64_t a = usual->pairs[2 * i], b = usual->pairs[2 * i + 1];
        if ((char *)addresses[a] < ends[b] && (char *)addresses[b] < ends[a]) goto end;
    }
    for (int64_t i = 0; i < usual->fixed; i++) addresses[usual->fixed_at[i]] = usual->fixed_addresses[i];
    if (call) {
        void *held = python->unlock();
        call(addresses, result, threads, packed);
        python->lock(held);
    }
    state = tensors ? TENSORS_CHANGED : DONE;
end:
    while (used) python->release(&buffers[--used]);
    return state;
}
