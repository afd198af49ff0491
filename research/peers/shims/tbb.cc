// oneTBB's mutexes.
#include <new>

#include <oneapi/tbb/mutex.h>
#include <oneapi/tbb/queuing_mutex.h>
#include <oneapi/tbb/queuing_rw_mutex.h>
#include <oneapi/tbb/rw_mutex.h>
#include <oneapi/tbb/spin_mutex.h>
#include <oneapi/tbb/spin_rw_mutex.h>

#include "shim.h"

SHIM_LOCK(tbb_spin, tbb::spin_mutex, new (l) tbb::spin_mutex, l->lock(), l->unlock())
SHIM_LOCK(tbb_mutex, tbb::mutex, new (l) tbb::mutex, l->lock(), l->unlock())
SHIM_LOCK(tbb_spin_rw, tbb::spin_rw_mutex, new (l) tbb::spin_rw_mutex, l->lock(), l->unlock())
SHIM_SHARED(tbb_spin_rw, tbb::spin_rw_mutex, l->lock_shared(), l->unlock_shared())
SHIM_LOCK(tbb_rw, tbb::rw_mutex, new (l) tbb::rw_mutex, l->lock(), l->unlock())
SHIM_SHARED(tbb_rw, tbb::rw_mutex, l->lock_shared(), l->unlock_shared())

using Queued = tbb::queuing_mutex::scoped_lock;
SHIM_FITS(Queued, NODE_BYTES);
SHIM_LOCK(tbb_queuing, tbb::queuing_mutex, new (l) tbb::queuing_mutex, (new (node) Queued)->acquire(*l),
          static_cast<Queued *>(node)->release())

using QueuedRw = tbb::queuing_rw_mutex::scoped_lock;
SHIM_FITS(QueuedRw, NODE_BYTES);
SHIM_LOCK(tbb_queuing_rw, tbb::queuing_rw_mutex, new (l) tbb::queuing_rw_mutex,
          (new (node) QueuedRw)->acquire(*l, true), static_cast<QueuedRw *>(node)->release())
SHIM_SHARED(tbb_queuing_rw, tbb::queuing_rw_mutex, (new (node) QueuedRw)->acquire(*l, false),
            static_cast<QueuedRw *>(node)->release())
