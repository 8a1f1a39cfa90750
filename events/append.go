package events

import (
	"encoding/binary"
	"maps"
	"math"
	"reflect"
	"slices"
	"unsafe"
)

// appendValue appends the encoding of v, which is a value or a pointer to one.
func appendValue(b []byte, v any) ([]byte, error) {
	if v == nil {
		return append(b, 0xc0), nil
	}
	t := reflect.TypeOf(v)
	l, err := layoutOf(t)
	if err != nil {
		return b, err
	}
	if l.kind != reflect.Pointer { // a copy has an address
		addressable := reflect.New(t)
		addressable.Elem().Set(reflect.ValueOf(v))
		return l.append(b, addressable.UnsafePointer()), nil
	}
	return l.appendPointer(b, reflect.ValueOf(v).UnsafePointer()), nil
}

// append appends the encoding of the value at an address. The value has the layout's type.
func (l *layout) append(b []byte, at unsafe.Pointer) []byte {
	switch l.kind {
	case reflect.String:
		return appendText(b, *(*string)(at))
	case reflect.Struct:
		return l.appendStruct(b, at)
	case reflect.Slice:
		if l.elem == nil {
			return appendBytes(b, *(*[]byte)(at))
		}
		return l.appendSlice(b, at)
	case reflect.Bool:
		return appendBool(b, *(*bool)(at))
	case reflect.Map:
		return appendTexts(b, *(*map[string]string)(at))
	case reflect.Pointer:
		return l.appendPointer(b, *(*unsafe.Pointer)(at))
	default:
		return l.appendNumber(b, at)
	}
}

func (l *layout) appendNumber(b []byte, at unsafe.Pointer) []byte {
	switch l.kind {
	case reflect.Int64:
		return appendInt(b, *(*int64)(at))
	case reflect.Uint64:
		return appendUint(b, *(*uint64)(at))
	case reflect.Int:
		return appendInt(b, int64(*(*int)(at)))
	default: // a layout has no other kinds
		return appendFloat(b, *(*float64)(at))
	}
}

func (l *layout) appendPointer(b []byte, to unsafe.Pointer) []byte {
	if to == nil {
		return append(b, 0xc0)
	}
	return l.elem.append(b, to)
}

func (l *layout) appendSlice(b []byte, at unsafe.Pointer) []byte {
	s := *(*[]byte)(at) // all slice types have the same header; no element is read as a byte
	if s == nil {
		return append(b, 0xc0)
	}
	b = appendArrayHeader(b, len(s))
	first := unsafe.Pointer(unsafe.SliceData(s))
	for i := range uintptr(len(s)) {
		b = l.elem.append(b, unsafe.Add(first, i*l.size))
	}
	return b
}

// appendTexts writes the keys in sorted order, so that equal maps have equal bytes.
func appendTexts(b []byte, m map[string]string) []byte {
	if m == nil {
		return append(b, 0xc0)
	}
	var few [16]string
	keys := slices.AppendSeq(few[:0], maps.Keys(m))
	slices.Sort(keys)
	b = appendMapHeader(b, len(keys))
	for _, k := range keys {
		b = appendText(appendText(b, k), m[k])
	}
	return b
}

// appendStruct writes a map of the fields that are present. Most fields are optional texts and numbers without a
// value, so the loop handles these without a function call.
func (l *layout) appendStruct(b []byte, at unsafe.Pointer) []byte {
	header, n := len(b), 0
	b = append(b, emptyMap)
	for i := range l.fields {
		f := &l.fields[i]
		in := unsafe.Add(at, f.offset)
		switch f.kind {
		case reflect.String:
			text := *(*string)(in)
			if text == "" && f.optional {
				continue
			}
			b = appendText(append(b, f.key...), text)
		case reflect.Int64:
			number := *(*int64)(in)
			if number == 0 && f.optional {
				continue
			}
			b = appendInt(append(b, f.key...), number)
		default:
			if f.optional && f.absent(in) {
				continue
			}
			start := len(b)
			b = f.append(append(b, f.key...), in)
			if f.vanishes && b[start+len(f.key)] == emptyMap {
				b = b[:start]
				continue
			}
		}
		n++
	}
	return countMap(b, header, n)
}

// countMap sets the number of pairs in a map header of one byte, and makes the header longer for 16 or more pairs.
func countMap(b []byte, header, n int) []byte {
	if n < 16 {
		b[header] |= byte(n)
		return b
	}
	b = append(b, 0, 0)
	copy(b[header+3:], b[header+1:])
	appendMapHeader(b[:header], n)
	return b
}

// emptyMap is the header of an empty map. Its low bits take the number of pairs up to 15.
const emptyMap = 0x80

// The functions below append one value in its shortest encoding, see FORMAT.md.

func appendText(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = append(b, 0xda, byte(n>>8), byte(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// appendBytes encodes nil as nil, and an empty slice as zero bytes.
func appendBytes(b, data []byte) []byte {
	switch n := len(data); {
	case data == nil:
		return append(b, 0xc0)
	case n <= math.MaxUint8:
		b = append(b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		b = append(b, 0xc5, byte(n>>8), byte(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
	}
	return append(b, data...)
}

func appendUint(b []byte, n uint64) []byte {
	switch {
	case n <= math.MaxInt8:
		return append(b, byte(n))
	case n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return append(b, 0xcd, byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

func appendInt(b []byte, n int64) []byte {
	switch {
	case n >= 0:
		return appendUint(b, uint64(n))
	case n >= -32:
		return append(b, byte(n))
	case n >= math.MinInt8:
		return append(b, 0xd0, byte(n))
	case n >= math.MinInt16:
		return append(b, 0xd1, byte(n>>8), byte(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

func appendArrayHeader(b []byte, n int) []byte { return appendCount(b, n, 0x90, 0xdc) }

func appendMapHeader(b []byte, n int) []byte { return appendCount(b, n, emptyMap, 0xde) }

// appendCount appends the number of elements or pairs: up to 15 in the low bits of fixed, up to 65 535 after wide,
// and otherwise after wide+1 as 32 bits.
func appendCount(b []byte, n int, fixed, wide byte) []byte {
	switch {
	case n < 16:
		return append(b, fixed|byte(n))
	case n <= math.MaxUint16:
		return append(b, wide, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, wide+1), uint32(n))
}
