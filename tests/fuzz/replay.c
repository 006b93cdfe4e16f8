/* SPDX-License-Identifier: Apache-2.0
 *
 * replay FILE…: runs the fuzzer's harness over the given files, with any compiler.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LONGEST ((size_t)4 << 20)

int main(int argc, char **argv)
{
	int skipped = 0;

	for (int i = 1; i < argc; i++) {
		uint8_t *data = malloc(LONGEST), *exact;
		FILE *file = fopen(argv[i], "rb");
		size_t size;

		if (!data || !file)
			return 1;
		size = fread(data, 1, LONGEST, file);
		fclose(file);
		/* A block of exactly this size, so that a read beyond it is reported. */
		exact = realloc(data, size ? size : 1);
		printf("%s\n", argv[i]);
		fflush(stdout);
		skipped += LLVMFuzzerTestOneInput(exact, size) != 0;
		free(exact);
	}
	printf("%d files, %d of them too long\n", argc - 1, skipped);
	return 0;
}
