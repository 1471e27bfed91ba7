// Whether ThreadSanitizer watches, and how a function is left out.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define VMEM_THREAD_SANITIZER 1
#endif

// The function's own accesses are not checked; those of what it calls are.
#if defined(VMEM_THREAD_SANITIZER) && defined(__clang__)
#define VMEM_NO_THREAD_SANITIZER __attribute__((no_sanitize("thread")))
#elif defined(VMEM_THREAD_SANITIZER)
#define VMEM_NO_THREAD_SANITIZER __attribute__((no_sanitize_thread))
#else
#define VMEM_NO_THREAD_SANITIZER
#endif
