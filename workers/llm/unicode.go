package llm

import (
	"bytes"
	"strconv"
)

// halfSurrogate is what replaces half of a surrogate pair: U+FFFD.
const halfSurrogate = `\ufffd`

// ValidUnicode returns JSON in which halves of surrogate pairs, and bytes that are not UTF-8, are U+FFFD. Models write
// such halves, as escapes, when they are cut within a character. Encoders keep them in raw JSON, and providers refuse
// every request that has one. The input is not changed.
func ValidUnicode(data []byte) []byte {
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	var out []byte
	from := 0 // data before it is in out
	for i := 0; i < len(data); {
		next := bytes.IndexByte(data[i:], '\\')
		if next < 0 {
			break
		}
		i += next
		switch size, half := escape(data[i:]); {
		case half:
			out = append(append(out, data[from:i]...), halfSurrogate...)
			i += size
			from = i
		default:
			i += size
		}
	}
	if from == 0 {
		return data
	}
	return append(out, data[from:]...)
}

// escape is the size of the escape that text begins with, a pair of surrogates being one, and whether it is half a pair.
func escape(text []byte) (size int, half bool) {
	first, ok := unit(text)
	switch {
	case !ok:
		return min(2, len(text)), false
	case first < 0xD800 || first > 0xDFFF:
		return 6, false
	}
	second, ok := unit(text[6:])
	if first < 0xDC00 && ok && second >= 0xDC00 && second <= 0xDFFF {
		return 12, false
	}
	return 6, true
}

// unit is the UTF-16 unit of an escape \uXXXX.
func unit(text []byte) (uint64, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return n, err == nil
}
