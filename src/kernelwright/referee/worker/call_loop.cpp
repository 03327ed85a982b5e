// Calls a module as often as the parent asks, from a loop without Python frames.
//
// The parent writes tokens to a queue in shared memory. A token names an argument set; nothing says what a call
// is for or how many there will be. After every call the loop notes what the module returned (type, dtype,
// shape, strides, address), before any other code of the module runs. Both ends are in this file: call_feed and
// call_drain run in the parent, the rest in the measured process. No header of torch or Python is needed:
// torch's functions for tensors have a C interface, and those of Python are declared here.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;
struct PyObject;

extern "C" {
extern PyObject PyTuple_Type, PyList_Type, _Py_NoneStruct;
PyObject* PyObject_Call(PyObject*, PyObject*, PyObject*);
PyObject* PyObject_CallObject(PyObject*, PyObject*);
int PyObject_IsTrue(PyObject*);
int PyType_IsSubtype(PyObject*, PyObject*);
i64 PyTuple_Size(PyObject*);
PyObject* PyTuple_GetItem(PyObject*, i64);
i64 PyList_Size(PyObject*);
PyObject* PyList_GetItem(PyObject*, i64);
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
void* PyEval_SaveThread(void);
void PyEval_RestoreThread(void*);
}

static const u32 TOKENS = 4096, RING = 256, KEPT = 1024, SETS = 8192, OUTPUTS = 32, DIMS = 10, ARGS = 16;
static const u32 NOTHING = 0xFFFFFF00u, RELEASE = 0xFFFFFF01u, CALLBACK = 0xFFFFFFFFu;
static const size_t RECORDS_AT = 36864, TIMES_AT = RECORDS_AT + (RING + KEPT) * 6952;
enum { OTHER = 0, TENSOR = 1, UNREADABLE = 2 };
enum { DONE = 0, LATE = 1, GONE = 2, RAISED = 3 };

struct Output {
    u32 kind;
    int32_t dtype, device, layout, ndim;
    u32 unused;
    i64 size[DIMS], stride[DIMS];
    u64 data;
    i64 offset, storage_bytes;
};
struct Record {
    u64 number;
    i64 began, ended;
    u32 n_outputs, is_tuple, n_args, has_gradients;
    u64 args[ARGS][2];
    Output outputs[OUTPUTS];
};
struct Queue {
    alignas(64) u32 fed;
    u32 worker_sleeps;
    alignas(64) u32 done;
    u32 wake_at, parent_sleeps, failed;
    alignas(64) u64 tokens[TOKENS];
};
static_assert(sizeof(Output) == 208 && sizeof(Record) == 6952 && sizeof(Queue) <= RECORDS_AT, "as in call_queue.py");

static u32 load(u32* at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
static void store(u32* at, u32 value) { __atomic_store_n(at, value, __ATOMIC_SEQ_CST); }
static void wake(u32* at) { syscall(SYS_futex, at, FUTEX_WAKE, 1, nullptr, nullptr, 0); }
static void sleep_on(u32* flag, i64 ns) {
    timespec limit = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, flag, FUTEX_WAIT, 1, ns < 0 ? nullptr : &limit, nullptr, 0);
}
// Whoever sleeps has set a flag, and sleeps on the flag itself: if it was cleared before the sleep begins, there is
// none. A sleep on what the flag is about would miss a wake that comes between the two.
static void rouse(u32* flag) {
    if (!load(flag)) return;
    store(flag, 0);
    wake(flag);
}
static i64 now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// ---------------------------------------------------------------- the parent's end

// `fed` is the parent's own count of tokens: nothing that it counts by is read from memory it shares.
static void push(Queue* q, u32* fed, u64 token) {
    q->tokens[*fed % TOKENS] = token;
    store(&q->fed, ++*fed);
    rouse(&q->worker_sleeps);
}

// Wait until `target` tokens are done in all, or one failed.
static int await(Queue* q, u32 target, i64 deadline, int sock) {
    while ((int32_t)(load(&q->done) - target) < 0) {
        if (load(&q->failed)) return RAISED;
        store(&q->wake_at, target);
        store(&q->parent_sleeps, 1);
        if ((int32_t)(load(&q->done) - target) >= 0) break;
        sleep_on(&q->parent_sleeps, 20000000);
        if ((int32_t)(load(&q->done) - target) >= 0) break;
        if (now() > deadline) return LATE;
        pollfd p = {sock, POLLRDHUP, 0};
        if (poll(&p, 1, 0) > 0 && (int32_t)(load(&q->done) - target) < 0 && (p.revents & (POLLRDHUP | POLLHUP)))
            return GONE;
    }
    store(&q->parent_sleeps, 0);
    return load(&q->failed) ? RAISED : DONE;
}

extern "C" void call_push(Queue* q, u32* fed, u64 token) { push(q, fed, token); }

extern "C" int call_drain(Queue* q, u32 fed, double seconds, int sock) {
    return await(q, fed, now() + (i64)(seconds * 1e9), sock);
}

struct Write {
    char* to;
    const char* from;
    u64 bytes;
};
// What is written while calls go on: when all calls before number `at` are fed and about `lead` of them are left.
// Further ones are fed when `rest` of these are left: calls in between begin after the writing, though the count of
// what was fed has not moved.
struct Change {
    u32 at, lead, rest, writes;
    u32 unsure;  // set: from this call on, up to number `at`, nobody knows whether a call saw the writing
    i64 written_at;  // set: time after the writing
    const Write* write;
};

// Write, or put it off where all calls that were fed have ended: there has been a pause, and whoever looks at what
// is written in the first call after it looks at the new bytes.
static void write_between(Queue* q, u32 base, u32 counted, Change* change) {
    u32 done = load(&q->done) - base;
    u32 later = change->at + change->lead + 1;
    if (change->at && done >= change->at && later < counted) {
        change->at = later;
        return;
    }
    for (u32 i = 0; i < change->writes; i++) memcpy(change->write[i].to, change->write[i].from, change->write[i].bytes);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    change->written_at = now();
    change->unsure = done < change->at ? done : change->at;
    change->writes = 0;
}

// Feed tokens, a random number of them ahead, and return when `counted` are done. Those after them are fed too,
// so that nothing in the queue shows which is the last that counts. `change` may be null.
extern "C" int call_feed(Queue* q, u32* fed, const u64* tokens, u32 counted, u32 total, u32 ahead, u64 seed,
                         double seconds, int sock, i64* elapsed, Change* change) {
    u32 base = *fed, next = 0;
    i64 begin = now(), deadline = begin + (i64)(seconds * 1e9);
    for (;;) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        u32 room = ahead - (u32)(seed >> 33) % (ahead / 2 + 1);
        bool is_pending = change && change->writes;
        u32 end = is_pending ? change->at : total;
        while (next < end && (int32_t)(base + next - load(&q->done)) < (int32_t)room) push(q, fed, tokens[next++]);
        bool is_due = is_pending && next == end;
        // Below zero where calls of an earlier feeding are left, of which there are too many to feed more.
        int32_t refill = (int32_t)(is_due ? next - change->lead : next == total ? counted : next - room / 2);
        if (refill > (int32_t)counted) refill = counted;
        if (refill <= 0 && next && !is_due) refill = 1;
        int how = await(q, base + refill, deadline, sock);
        if (how == DONE && is_due) {
            write_between(q, base, counted, change);
            if (!change->writes && change->at) how = await(q, base + change->at - change->rest, deadline, sock);
        }
        if (how == DONE && (is_due || refill < (int32_t)counted)) continue;
        *elapsed = now() - begin;
        return how;
    }
}

// Spin for a moment, because small calls end within it; then sleep.
static int await_soon(Queue* q, u32 target, i64 deadline, int sock) {
    for (i64 until = now() + 30000; (int32_t)(load(&q->done) - target) < 0 && now() < until;)
        if (load(&q->failed)) return RAISED;
    return await(q, target, deadline, sock);
}

// Feed calls that go round `sets` tokens, and write the inputs of each just before it is fed: when at most `ahead`
// calls, and none on the same set, are left. A call's inputs come from `from`, its set's memory is at `to`; both have
// `bytes`.
extern "C" int call_feed_written(Queue* q, u32* fed, const u64* tokens, char* const* to, u32 sets,
                                 const char* const* from, u64 bytes, u32 total, u32 ahead, double seconds,
                                 int sock, i64* elapsed) {
    u32 base = *fed;
    i64 begin = now(), deadline = begin + (i64)(seconds * 1e9);
    int how = DONE;
    for (u32 i = 0; i < total && how == DONE; i++) {
        if (i > ahead) how = await_soon(q, base + i - ahead, deadline, sock);
        if (how != DONE) break;
        memcpy(to[i % sets], from[i], bytes);
        push(q, fed, tokens[i % sets]);
    }
    if (how == DONE) how = await_soon(q, base + total, deadline, sock);
    *elapsed = now() - begin;
    return how;
}

// ---------------------------------------------------------------- the measured process's end

typedef void* Tensor;  // the address of an at::Tensor
typedef int32_t (*Asks32)(Tensor, int32_t*);
typedef int32_t (*Asks64)(Tensor, i64*);
typedef int32_t (*AsksList)(Tensor, i64**);
typedef int32_t (*AsksAddress)(Tensor, void**);

static struct {
    Asks32 dtype, device, layout;
    Asks64 dim, offset, bytes;
    AsksList sizes, strides;
    AsksAddress data;
    bool (*gradients)(void);
    int32_t strided;
    i64 tensor_at;
    PyObject* type;
    Queue* queue;
    PyObject* callbacks;
    PyObject* callable;
    PyObject* sets[SETS];
    PyObject* ring[RING];
    PyObject* kept[KEPT];
    u32 ring_size;
    u64 number;
    bool has_failed;
} own;

static PyObject* type_of(PyObject* object) { return ((PyObject**)object)[1]; }

static void replace(PyObject** place, PyObject* value) {
    PyObject* old = *place;
    *place = value;
    if (old) Py_DecRef(old);
}

static void describe(PyObject* object, Output* out) {
    out->kind = OTHER;
    if (type_of(object) != own.type) {
        const char* name = ((const char**)type_of(object))[3];
        strncpy((char*)out->size, name ? name : "?", sizeof out->size - 1);
        ((char*)out->size)[sizeof out->size - 1] = 0;
        return;
    }
    Tensor t = (char*)object + own.tensor_at;
    out->kind = UNREADABLE;
    i64 dim = 0, *sizes = nullptr, *strides = nullptr;
    if (own.layout(t, &out->layout) || own.device(t, &out->device) || own.dtype(t, &out->dtype)) return;
    if (out->layout != own.strided || own.dim(t, &dim) || dim > DIMS) return;
    void* data = nullptr;
    if (own.sizes(t, &sizes) || own.strides(t, &strides) || own.data(t, &data)) return;
    if (own.offset(t, &out->offset) || own.bytes(t, &out->storage_bytes)) return;
    out->ndim = (int32_t)dim;
    memcpy(out->size, sizes, dim * sizeof(i64));
    memcpy(out->stride, strides, dim * sizeof(i64));
    out->data = (u64)data;
    out->kind = TENSOR;
}

static void describe_args(PyObject* args, Record* record) {
    record->n_args = 0;
    for (i64 i = 0, n = PyTuple_Size(args); i < n && record->n_args < ARGS; i++) {
        PyObject* one = PyTuple_GetItem(args, i);
        void* data = nullptr;
        i64 offset = 0, bytes = 0;
        Tensor t = (char*)one + own.tensor_at;
        if (type_of(one) != own.type || own.data(t, &data) || own.bytes(t, &bytes) || own.offset(t, &offset)) continue;
        record->args[record->n_args][0] = (u64)data;
        record->args[record->n_args++][1] = (u64)bytes;
    }
}

static void describe_result(PyObject* result, Record* record) {
    bool is_tuple = PyType_IsSubtype(type_of(result), &PyTuple_Type);
    bool is_list = !is_tuple && PyType_IsSubtype(type_of(result), &PyList_Type);
    record->is_tuple = is_tuple || is_list;
    i64 n = is_tuple ? PyTuple_Size(result) : is_list ? PyList_Size(result) : 1;
    record->n_outputs = (u32)n;
    for (i64 i = 0; i < n && i < OUTPUTS; i++) {
        PyObject* one = is_tuple ? PyTuple_GetItem(result, i) : is_list ? PyList_GetItem(result, i) : result;
        describe(one, &record->outputs[i]);
    }
}

static Record* record_at(u32 index) { return (Record*)((char*)own.queue + RECORDS_AT) + index; }

static bool call_one(u32 set, u32 keep, u64 number) {
    PyObject* args = set < SETS ? own.sets[set] : nullptr;
    if (!args || !own.callable) return true;
    u32 slot = number % own.ring_size;
    replace(&own.ring[slot], nullptr);
    Record* record = record_at(slot);
    record->number = number;
    record->began = now();
    PyObject* result = PyObject_Call(own.callable, args, nullptr);
    record->ended = now();
    i64* times = (i64*)((char*)own.queue + TIMES_AT) + number % TOKENS * 2;
    times[0] = record->began, times[1] = record->ended;
    if (!result) return false;
    describe_result(result, record);
    describe_args(args, record);
    record->has_gradients = own.gradients();
    own.ring[slot] = result;
    if (keep && keep <= KEPT) {
        Py_IncRef(result);
        replace(&own.kept[keep - 1], result);
        u32 n = record->n_outputs < OUTPUTS ? record->n_outputs : OUTPUTS;
        memcpy(record_at(RING + keep - 1), record, offsetof(Record, outputs) + n * sizeof(Output));
    }
    return true;
}

static void answer(Queue* q, u32 done) {
    store(&q->done, done);
    if ((int32_t)(done - load(&q->wake_at)) >= 0) rouse(&q->parent_sleeps);
}

static void await_token(Queue* q, u32 done) {
    void* thread = nullptr;
    while (load(&q->fed) == done) {
        if (!thread) thread = PyEval_SaveThread();
        store(&q->worker_sleeps, 1);
        if (load(&q->fed) == done) sleep_on(&q->worker_sleeps, -1);
    }
    store(&q->worker_sleeps, 0);
    if (thread) PyEval_RestoreThread(thread);
}

// Serve tokens. Returns None when a callback returns something false, NULL when the module or a callback raised.
extern "C" PyObject* call_serve(void) {
    Queue* q = own.queue;
    for (;;) {
        u32 done = load(&q->done);
        await_token(q, done);
        u64 token = q->tokens[done % TOKENS];
        u32 what = (u32)token, keep = (u32)(token >> 32);
        bool is_fine = true, goes_on = true;
        if (what == RELEASE) {
            for (u32 i = keep; i < KEPT; i++) replace(&own.kept[i], nullptr);
        } else if (what > RELEASE) {
            PyObject* call = PyTuple_GetItem(own.callbacks, CALLBACK - what);
            PyObject* result = call ? PyObject_CallObject(call, nullptr) : nullptr;
            is_fine = result != nullptr;
            if (result) goes_on = PyObject_IsTrue(result) == 1, Py_DecRef(result);
        } else if (what != NOTHING) {
            u64 number = own.number++;
            is_fine = own.has_failed || call_one(what, keep, number);
        }
        if (!is_fine) {
            own.has_failed = true;
            store(&q->failed, 1);
            store(&q->wake_at, done);
        }
        answer(q, done + 1);
        if (!is_fine) return nullptr;
        if (!goes_on) return Py_IncRef(&_Py_NoneStruct), &_Py_NoneStruct;
    }
}

extern "C" void call_forgive(void) {
    own.has_failed = false;
    store(&own.queue->failed, 0);
}

extern "C" void call_use(PyObject* callable) {
    Py_IncRef(callable);
    replace(&own.callable, callable);
}

extern "C" int call_set(u32 number, PyObject* args) {
    if (number >= SETS) return 1;
    if (args) Py_IncRef(args);
    replace(&own.sets[number], args);
    return 0;
}

// Return a kept output, or that of the call of this number if the ring still holds it.
extern "C" PyObject* call_output(int is_kept, u64 which) {
    PyObject* found = is_kept ? (which < KEPT ? own.kept[which] : nullptr) : own.ring[which % own.ring_size];
    if (!found) found = &_Py_NoneStruct;
    Py_IncRef(found);
    return found;
}

// Return how many calls were made.
extern "C" u64 call_count(void) { return own.number; }

extern "C" void call_clear(void) {
    for (u32 i = 0; i < RING; i++) replace(&own.ring[i], nullptr);
}

extern "C" void call_ring(u32 size) {
    call_clear();
    own.ring_size = size < 1 ? 1 : size > RING ? RING : size;
}

extern "C" void call_open(Queue* queue, PyObject* callbacks) {
    Py_IncRef(callbacks);
    own.queue = queue;
    replace(&own.callbacks, callbacks);
    own.ring_size = 2;
}

// Find torch's functions in its library, which is loaded already. Returns the name of one that is missing.
extern "C" const char* call_setup(const char* library, i64 tensor_at, PyObject* type) {
    void* torch = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (!torch) return library;
    struct {
        const char* name;
        void** place;
    } wanted[] = {
        {"aoti_torch_get_dtype", (void**)&own.dtype},
        {"aoti_torch_get_device_type", (void**)&own.device},
        {"aoti_torch_get_layout", (void**)&own.layout},
        {"aoti_torch_get_dim", (void**)&own.dim},
        {"aoti_torch_get_storage_offset", (void**)&own.offset},
        {"aoti_torch_get_storage_size", (void**)&own.bytes},
        {"aoti_torch_get_sizes", (void**)&own.sizes},
        {"aoti_torch_get_strides", (void**)&own.strides},
        {"aoti_torch_get_data_ptr", (void**)&own.data},
        {"aoti_torch_grad_mode_is_enabled", (void**)&own.gradients},
    };
    for (auto& one : wanted)
        if (!(*one.place = dlsym(torch, one.name))) return one.name;
    int32_t (*strided)(void) = (int32_t (*)(void))dlsym(torch, "aoti_torch_layout_strided");
    if (!strided) return "aoti_torch_layout_strided";
    own.strided = strided();
    own.tensor_at = tensor_at;
    Py_IncRef(type);
    own.type = type;
    return nullptr;
}
