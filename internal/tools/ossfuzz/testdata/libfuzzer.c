// Runs a fuzz test with one input, its argument, in the place of libFuzzer.
#include <string.h>

int LLVMFuzzerTestOneInput(const char *data, size_t size);

#define NOTHING(name) void name(void) {}
NOTHING(__sanitizer_cov_8bit_counters_init)
NOTHING(__sanitizer_cov_pcs_init)
NOTHING(__sanitizer_cov_trace_cmp1)
NOTHING(__sanitizer_cov_trace_cmp2)
NOTHING(__sanitizer_cov_trace_cmp4)
NOTHING(__sanitizer_cov_trace_cmp8)
NOTHING(__sanitizer_cov_trace_const_cmp1)
NOTHING(__sanitizer_cov_trace_const_cmp2)
NOTHING(__sanitizer_cov_trace_const_cmp4)
NOTHING(__sanitizer_cov_trace_const_cmp8)
NOTHING(__sanitizer_weak_hook_strcmp)

int main(int argc, char **argv) { return LLVMFuzzerTestOneInput(argv[1], strlen(argv[1])); }
