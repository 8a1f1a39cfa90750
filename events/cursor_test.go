package events

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/internal/runtest"
)

// everything has a field of each type that the format allows.
type everything struct {
	Text     string            `msgpack:"t"`
	Short    string            `msgpack:"s,omitempty"`
	Bool     bool              `msgpack:"b"`
	Int      int64             `msgpack:"i"`
	Count    int               `msgpack:"c"`
	Uint     uint64            `msgpack:"u"`
	Float    float64           `msgpack:"f"`
	Bytes    []byte            `msgpack:"y"`
	Seqs     []Seq             `msgpack:"q,omitempty"`
	Texts    []string          `msgpack:"ts"`
	Map      map[string]string `msgpack:"m"`
	Nested   []everything      `msgpack:"n,omitempty"`
	Pointer  *everything       `msgpack:"p"`
	Untagged int64
	Left     int64 `msgpack:"-"`
	Embedded
}

// Embedded is a struct whose fields are encoded with those of another.
type Embedded struct {
	First  string `msgpack:"e1,omitempty"`
	Second int64  `msgpack:"e2"`
}

func drawEverything(t *rapid.T, depth int) everything {
	e := everything{
		Text: rapid.StringN(0, 300, -1).Draw(t, "text"), Short: rapid.StringN(0, 33, 33).Draw(t, "short"),
		Bool: rapid.Bool().Draw(t, "bool"), Int: rapid.Int64().Draw(t, "int"), Count: rapid.Int().Draw(t, "count"),
		Uint: rapid.Uint64().Draw(t, "uint"), Float: rapid.Float64().Draw(t, "float"),
		Bytes:    rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"),
		Seqs:     rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Seq { return Seq(rapid.Uint64().Draw(t, "seq")) }), 1, 20).Draw(t, "seqs"),
		Texts:    rapid.SliceOf(rapid.String()).Draw(t, "texts"),
		Map:      rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "map"),
		Untagged: rapid.Int64().Draw(t, "untagged"),
		Embedded: Embedded{First: rapid.StringN(0, 5, -1).Draw(t, "first"), Second: rapid.Int64().Draw(t, "second")},
	}
	if depth > 0 {
		e.Nested = []everything{drawEverything(t, depth-1), {}}
		inner := drawEverything(t, depth-1)
		e.Pointer = &inner
	}
	return e
}

// Decoding returns the encoded value.
func TestReaderAgreesWithWriter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawEverything(t, 1)
		data, err := EncodePayload(&want)
		runtest.NoError(t, err)
		var got everything
		runtest.NoError(t, DecodePayload(data, &got))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		r := newCursor(data)
		if whole := r.raw(); len(whole) != len(data) || r.err != nil {
			t.Fatalf("raw: got %d of %d bytes, %v", len(whole), len(data), r.err)
		}
	})
}

// Encoders in other languages may use wider forms than necessary.
func TestWideForms(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40)
	for _, tc := range []struct {
		name string
		data string
		want everything
	}{
		{"uint8", "\x81\xa1i\xcc\x05", everything{Int: 5}},
		{"uint16", "\x81\xa1i\xcd\x01\x00", everything{Int: 256}},
		{"uint32", "\x81\xa1i\xce\x00\x01\x00\x00", everything{Int: 65536}},
		{"uint64", "\x81\xa1i\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", everything{Int: math.MaxInt64}},
		{"int8", "\x81\xa1i\xd0\x80", everything{Int: -128}},
		{"int16", "\x81\xa1i\xd1\xff\xfe", everything{Int: -2}},
		{"int32", "\x81\xa1i\xd2\xff\xff\xff\xfe", everything{Int: -2}},
		{"int64", "\x81\xa1i\xd3\x80\x00\x00\x00\x00\x00\x00\x00", everything{Int: math.MinInt64}},
		{"negative_fixed", "\x81\xa1i\xe0", everything{Int: -32}},
		{"signed_into_unsigned", "\x81\xa1u\xd3\x00\x00\x00\x00\x00\x00\x00\x07", everything{Uint: 7}},
		{"float32", "\x81\xa1f\xca\x3f\xc0\x00\x00", everything{Float: 1.5}},
		{"str8", "\x81\xd9\x01t\xd9\x01a", everything{Text: "a"}},
		{"str16", "\x81\xa1t\xda\x00\x28" + long, everything{Text: long}},
		{"str32", "\x81\xa1t\xdb\x00\x00\x00\x01a", everything{Text: "a"}},
		{"bin16", "\x81\xa1y\xc5\x00\x01a", everything{Bytes: []byte("a")}},
		{"bin32", "\x81\xa1y\xc6\x00\x00\x00\x01a", everything{Bytes: []byte("a")}},
		{"array16", "\x81\xa1q\xdc\x00\x01\x05", everything{Seqs: []Seq{5}}},
		{"array32", "\x81\xa1q\xdd\x00\x00\x00\x01\x05", everything{Seqs: []Seq{5}}},
		{"map16", "\xde\x00\x01\xa1i\x05", everything{Int: 5}},
		{"map32", "\xdf\x00\x00\x00\x01\xa1i\x05", everything{Int: 5}},
		{"key_twice", "\x82\xa1i\x05\xa1i\x06", everything{Int: 6}},
		{"nils", "\x88\xa1i\xc0\xa1t\xc0\xa1b\xc0\xa1u\xc0\xa1f\xc0\xa1q\xc0\xa1m\xc0\xa1p\xc0", everything{}},
		{"nil_struct", "\x81\xa1n\x91\xc0", everything{Nested: []everything{{}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got everything
			if err := DecodePayload([]byte(tc.data), &got); err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

func TestWrongForms(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"text_for_int":         "\x81\xa1i\xa11",
		"float_for_int":        "\x81\xa1i\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00",
		"int_too_large":        "\x81\xa1i\xcf\x80\x00\x00\x00\x00\x00\x00\x00",
		"negative_for_uint":    "\x81\xa1u\xff",
		"int_for_float":        "\x81\xa1f\x01",
		"int_for_bool":         "\x81\xa1b\x01",
		"bytes_for_text":       "\x81\xa1t\xc4\x01a",
		"text_for_bytes":       "\x81\xa1y\xa1a",
		"map_for_array":        "\x81\xa1q\x80",
		"array_for_map":        "\x81\xa1m\x90",
		"array_for_struct":     "\x90",
		"int_for_struct":       "\x81\xa1n\x91\x01",
		"number_as_key":        "\x81\x01\x01",
		"array_longer_than_it": "\x81\xa1q\xdd\xff\xff\xff\xff\x01",
		"map_longer_than_it":   "\x81\xa1m\xdf\x7f\xff\xff\xff\xa0\xa0",
		"text_longer_than_it":  "\x81\xa1t\xdb\xff\xff\xff\xffa",
		"extension":            "\x81\xa1z\xd4\x01\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got everything
			if err := DecodePayload([]byte(data), &got); !errors.Is(err, ErrMalformed) {
				t.Errorf("got %+v, error %v, want %v", got, err, ErrMalformed)
			}
		})
	}
}

func TestUnsupportedType(t *testing.T) {
	t.Parallel()
	var v struct {
		Any any `msgpack:"a"`
	}
	runtest.WantError(t, "decode payload", DecodePayload([]byte("\x81\xa1a\x01"), &v), ErrInvalid)
}

// TestNestingIsBounded decodes a recursive type. Only such types nest as deep as the input.
func TestNestingIsBounded(t *testing.T) {
	t.Parallel()
	for depth, fits := range map[int]bool{1: true, maxNesting - 1: true, maxNesting: false, 100_000: false, 10_000_000: false} {
		for _, open := range []string{"\x81\xa1n\x91", "\x81\xa1p"} {
			data := append(bytes.Repeat([]byte(open), depth), 0x80)
			if err := DecodePayload(data, new(everything)); (err == nil) != fits || err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%d of %q: got %v, want it to fit: %v", depth, open[2:], err, fits)
			}
		}
	}
}
