package events

import (
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// shareBytes is the size of a commit up to which its strings share one copy of it. In larger commits each string has
// its own copy, so that one short string does not keep the whole commit in memory.
const shareBytes = 4 << 10

// maxNesting limits the nesting of recursive types. Other types nest as deep as they are declared.
const maxNesting = 128

// cursor reads msgpack from memory. It checks a length against the remaining bytes before it allocates. It skips
// unwanted values without recursion. The first error is kept, and every later read returns zero.
type cursor struct {
	data       string
	at         int
	share      bool // strings share the memory of data
	shareBytes bool // bytes do
	depth      int  // nesting of recursive types
	err        error

	unknown string  // the first tag that was skipped; empty: none
	lacks   *fields // of the struct that lacks it
}

// skipped keeps the first tag that a struct lacks.
func (c *cursor) skipped(tag string, by *fields) {
	if c.lacks == nil {
		c.unknown, c.lacks = tag, by
	}
}

// newCursor reads data in place: decoded values may share its memory, which saves a copy of every commit.
func newCursor(data []byte) cursor {
	return cursor{data: unsafe.String(unsafe.SliceData(data), len(data)), share: len(data) <= shareBytes}
}

func (c *cursor) left() int { return len(c.data) - c.at }

// valueType is the type of value that a msgpack header announces.
type valueType byte

const (
	typeBad valueType = iota
	typeNil
	typeBool
	typeInt  // negative integers only
	typeUint // integers from 0
	typeFloat
	typeString
	typeBytes
	typeArray
	typeMap
)

//nolint:gochecknoglobals // read-only table
var typeNames = [...]string{"nothing", "nil", "bool", "negative integer", "integer", "float", "string", "bytes", "array", "map"}

func (v valueType) String() string { return typeNames[v] }

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
	c.at = len(c.data)
}

func (c *cursor) bytes(n uint64) string {
	if n > uint64(c.left()) {
		c.fail("ends too early")
		return ""
	}
	c.at += int(n)
	return c.data[c.at-int(n) : c.at]
}

// uint reads a big-endian number of 1, 2, 4 or 8 bytes.
func (c *cursor) uint(size uint64) uint64 {
	b := c.bytes(size)
	n := uint64(0)
	for i := range len(b) {
		n = n<<8 | uint64(b[i])
	}
	return n
}

// header reads the header of a value. For nil, bools and numbers, n has the bits of the value. For other types it is the
// number of bytes, elements or pairs that follow, checked against the remaining bytes.
func (c *cursor) header() (f valueType, n uint64) {
	if c.left() == 0 {
		c.fail("ends too early")
		return typeBad, 0
	}
	b := c.data[c.at]
	c.at++
	switch {
	case b < 0x80:
		return typeUint, uint64(b)
	case b < 0x90:
		return c.sized(typeMap, uint64(b&0x0f))
	case b < 0xa0:
		return c.sized(typeArray, uint64(b&0x0f))
	case b < 0xc0:
		return c.sized(typeString, uint64(b&0x1f))
	case b >= 0xe0:
		return typeInt, uint64(int64(int8(b)))
	}
	return c.longHeader(b)
}

func (c *cursor) longHeader(b byte) (valueType, uint64) {
	switch b {
	case 0xc0:
		return typeNil, 0
	case 0xc2, 0xc3:
		return typeBool, uint64(b & 1)
	case 0xc4, 0xc5, 0xc6:
		return c.sized(typeBytes, c.uint(1<<(b-0xc4)))
	case 0xca:
		return typeFloat, math.Float64bits(float64(math.Float32frombits(uint32(c.uint(4)))))
	case 0xcb:
		return typeFloat, c.uint(8)
	case 0xcc, 0xcd, 0xce, 0xcf:
		return typeUint, c.uint(1 << (b - 0xcc))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		return signed(c.uint(1<<(b-0xd0)), 8<<(b-0xd0))
	case 0xd9, 0xda, 0xdb:
		return c.sized(typeString, c.uint(1<<(b-0xd9)))
	case 0xdc, 0xdd:
		return c.sized(typeArray, c.uint(2<<(b-0xdc)))
	case 0xde, 0xdf:
		return c.sized(typeMap, c.uint(2<<(b-0xde)))
	}
	c.fail("byte %#02x begins no value of this format", b) // extensions and 0xc1
	return typeBad, 0
}

// signed extends a number of the given width to 64 bits.
func signed(n uint64, bits int) (valueType, uint64) {
	wide := int64(n<<(64-bits)) >> (64 - bits)
	if wide < 0 {
		return typeInt, uint64(wide)
	}
	return typeUint, uint64(wide)
}

func (c *cursor) sized(f valueType, n uint64) (valueType, uint64) {
	need := n // an element has at least one byte
	if f == typeMap {
		need = 2 * n
	}
	if need > uint64(c.left()) {
		c.fail("ends too early")
		return typeBad, 0
	}
	return f, n
}

// want reads a header of the wanted type. Nil means the zero value of every type.
func (c *cursor) want(f valueType) uint64 {
	n, _ := c.wantOrNil(f)
	return n
}

// wantOrNil distinguishes nil, and an error, from an encoded zero.
func (c *cursor) wantOrNil(f valueType) (n uint64, isNil bool) {
	got, n := c.header()
	if got == f {
		return n, false
	}
	if got != typeNil {
		c.fail("want %s, found %s", f, got)
	}
	return 0, true
}

// text returns a string that shares the memory of data.
func (c *cursor) text() string {
	if c.at < len(c.data) {
		// Tags and most strings are short: below 32 bytes the header is one byte.
		if n := int(c.data[c.at]) - 0xa0; n >= 0 && n < 0x20 && n < c.left() {
			c.at += 1 + n
			return c.data[c.at-n : c.at]
		}
	}
	return c.bytes(c.want(typeString))
}

func (c *cursor) str() string {
	if c.share {
		return c.text()
	}
	return strings.Clone(c.text())
}

func (c *cursor) bool() bool { return c.want(typeBool) == 1 }

func (c *cursor) int() int64 {
	f, n := c.header()
	switch {
	case f == typeInt || f == typeNil || f == typeUint && n <= math.MaxInt64:
		return int64(n)
	default:
		c.fail("want an integer below 2^63, found %s", f)
		return 0
	}
}

// raw returns the encoding of one whole value of any type. It shares the memory of data.
func (c *cursor) raw() string {
	start := c.at
	for left := uint64(1); left > 0 && c.err == nil; left-- {
		switch f, n := c.header(); f {
		case typeString, typeBytes:
			c.bytes(n)
		case typeArray:
			left += n
		case typeMap:
			left += 2 * n
		default:
		}
	}
	return c.data[start:c.at]
}
