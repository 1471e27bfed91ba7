/** Marks what libvmem.so exports; everything else in it is hidden. C and C++. */
#pragma once

#define VMEM_API __attribute__((visibility("default")))
