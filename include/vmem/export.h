/** Marks what libvmem.so exports; everything else in it is hidden. C and C++. */
#pragma once

#define VMEM_API __attribute__((visibility("default")))

/** Hides an implementation type nested in an exported class; such a type would be exported with it. */
#define VMEM_LOCAL __attribute__((visibility("hidden")))
