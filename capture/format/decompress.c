/* SPDX-License-Identifier: Apache-2.0 */
#include "format/decompress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_gzip(const uint8_t *head, size_t length)
{
	return length >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

/* A zstd file may begin with a skippable frame; files of pzstd do. */
static bool is_zstd(const uint8_t *head, size_t length)
{
	return length >= 4 && (!memcmp(head, "\x28\xb5\x2f\xfd", 4) ||
			       ((head[0] & 0xf0) == 0x50 && !memcmp(head + 1, "\x2a\x4d\x18", 3)));
}

static bool is_xz(const uint8_t *head, size_t length)
{
	return length >= 6 && !memcmp(head,
				      "\xfd"
				      "7zXZ",
				      6);
}

#ifdef MB_HAVE_ZLIB
#include <zlib.h>

#define GZIP_WINDOW_BITS (15 + 16)

static int gzip_open(struct mb_decompressor *decompressor)
{
	z_stream *stream = calloc(1, sizeof(*stream));

	if (!stream || inflateInit2(stream, GZIP_WINDOW_BITS) != Z_OK) {
		free(stream);
		return -ENOMEM;
	}
	decompressor->state = stream;
	return 0;
}

/* Begin the next member, if there is one: zeros are padding, anything else is not gzip data. */
static int gzip_next_member(struct mb_decompressor *decompressor, z_stream *stream, bool last)
{
	while (stream->avail_in && !*stream->next_in) {
		stream->next_in++;
		stream->avail_in--;
	}
	if (!stream->avail_in)
		return last ? MB_DECOMPRESS_DONE : MB_DECOMPRESS_MORE;
	if (*stream->next_in != 0x1f)
		return MB_DECOMPRESS_DONE;
	inflateReset(stream);
	decompressor->between = false;
	return MB_DECOMPRESS_MORE;
}

static int gzip_run(struct mb_decompressor *decompressor, const uint8_t *in, size_t *in_length, uint8_t *out,
		    size_t *out_length, bool last, const char **reason)
{
	z_stream *stream = decompressor->state;
	int result = MB_DECOMPRESS_MORE;

	stream->next_in = (uint8_t *)in;
	stream->avail_in = (unsigned)*in_length;
	stream->next_out = out;
	stream->avail_out = (unsigned)*out_length;
	if (decompressor->between)
		result = gzip_next_member(decompressor, stream, last);
	if (!decompressor->between) {
		int status = inflate(stream, Z_NO_FLUSH);

		if (status == Z_STREAM_END) {
			decompressor->between = true;
		} else if (status != Z_OK && status != Z_BUF_ERROR) {
			*reason = stream->msg ? stream->msg : "damaged data";
			result = -EBADMSG;
		} else if (last && !stream->avail_in && stream->avail_out) {
			result = MB_DECOMPRESS_CUT;
		}
	}
	*in_length -= stream->avail_in;
	*out_length -= stream->avail_out;
	return result;
}

static void gzip_close(struct mb_decompressor *decompressor)
{
	inflateEnd(decompressor->state);
	free(decompressor->state);
}
#else
#define gzip_open NULL
#define gzip_run NULL
#define gzip_close NULL
#endif

#ifdef MB_HAVE_ZSTD
#include <zstd.h>

static int zstd_open(struct mb_decompressor *decompressor)
{
	decompressor->state = ZSTD_createDStream();
	return decompressor->state ? 0 : -ENOMEM;
}

static int zstd_run(struct mb_decompressor *decompressor, const uint8_t *in, size_t *in_length, uint8_t *out,
		    size_t *out_length, bool last, const char **reason)
{
	ZSTD_inBuffer input = { in, *in_length, 0 };
	ZSTD_outBuffer output = { out, *out_length, 0 };
	size_t hint;

	if (last && !input.size && decompressor->between) {
		*out_length = 0;
		return MB_DECOMPRESS_DONE;
	}
	hint = ZSTD_decompressStream(decompressor->state, &output, &input);
	*in_length = input.pos;
	*out_length = output.pos;
	if (ZSTD_isError(hint)) {
		*reason = ZSTD_getErrorName(hint);
		return -EBADMSG;
	}
	decompressor->between = hint == 0;
	if (last && input.pos == input.size && output.pos < output.size)
		return hint == 0 ? MB_DECOMPRESS_DONE : MB_DECOMPRESS_CUT;
	return MB_DECOMPRESS_MORE;
}

static void zstd_close(struct mb_decompressor *decompressor)
{
	ZSTD_freeDStream(decompressor->state);
}
#else
#define zstd_open NULL
#define zstd_run NULL
#define zstd_close NULL
#endif

#ifdef MB_HAVE_LZMA
#include <lzma.h>

/* `xz -9` needs 65 MiB. */
#define XZ_MEMORY_LIMIT ((uint64_t)128 << 20)

static int xz_open(struct mb_decompressor *decompressor)
{
	lzma_stream *stream = calloc(1, sizeof(*stream));

	if (!stream || lzma_stream_decoder(stream, XZ_MEMORY_LIMIT, LZMA_CONCATENATED) != LZMA_OK) {
		free(stream);
		return -ENOMEM;
	}
	decompressor->state = stream;
	return 0;
}

static const char *xz_reason(lzma_ret status)
{
	switch (status) {
	case LZMA_MEMLIMIT_ERROR:
		return "needs more than 128 MiB to decompress";
	case LZMA_MEM_ERROR:
		return "out of memory";
	case LZMA_OPTIONS_ERROR:
		return "unsupported options";
	case LZMA_FORMAT_ERROR:
		return "something else follows";
	default:
		return "damaged data";
	}
}

static int xz_run(struct mb_decompressor *decompressor, const uint8_t *in, size_t *in_length, uint8_t *out,
		  size_t *out_length, bool last, const char **reason)
{
	lzma_stream *stream = decompressor->state;
	lzma_ret status;

	stream->next_in = in;
	stream->avail_in = *in_length;
	stream->next_out = out;
	stream->avail_out = *out_length;
	status = lzma_code(stream, last ? LZMA_FINISH : LZMA_RUN);
	*in_length -= stream->avail_in;
	*out_length -= stream->avail_out;
	if (status == LZMA_STREAM_END)
		return MB_DECOMPRESS_DONE;
	if (status == LZMA_BUF_ERROR)
		return last && stream->avail_out ? MB_DECOMPRESS_CUT : MB_DECOMPRESS_MORE;
	if (status != LZMA_OK) {
		*reason = xz_reason(status);
		return -EBADMSG;
	}
	return MB_DECOMPRESS_MORE;
}

static void xz_close(struct mb_decompressor *decompressor)
{
	lzma_end(decompressor->state);
	free(decompressor->state);
}
#else
#define xz_open NULL
#define xz_run NULL
#define xz_close NULL
#endif

static const struct mb_compression compressions[] = {
	{ "gzip", "gzip -dc", "zlib1g-dev", is_gzip, gzip_open, gzip_run, gzip_close },
	{ "zstd", "zstd -dc", "libzstd-dev", is_zstd, zstd_open, zstd_run, zstd_close },
	{ "xz", "xz -dc", "liblzma-dev", is_xz, xz_open, xz_run, xz_close },
};

const struct mb_compression *mb_compression_find(const uint8_t *head, size_t length)
{
	for (size_t i = 0; i < sizeof(compressions) / sizeof(compressions[0]); i++)
		if (compressions[i].matches(head, length))
			return &compressions[i];
	return NULL;
}
