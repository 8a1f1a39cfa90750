package external

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/lash-go/lash/session/plugin/wire"
)

// BenchmarkEncoding measures one encoding and one decoding of the messages of a call, as JSON and as MessagePack: the
// time of both, the size, and the share of the time of a repeatable call in the same run.
func BenchmarkEncoding(b *testing.B) {
	text := strings.Repeat("a line with \"quotes\", and é\n", 150)[:4096]
	args, err := json.Marshal(map[string]string{"text": text[:1000]})
	check(b, err)
	id := wire.CallID{Session: "01JABCDEFGHJKMNPQRSTVWXYZ0", Call: "t1/0/0"}
	for _, c := range []struct {
		name    string
		message any
		empty   func() any
	}{
		{"call", &wire.Call{CallID: id, Turn: "t1", Model: "toolu_01ABCDEF", Key: "01JABCDEFGHJKMNPQRSTVWXYZ0/t1/0/0", Tool: "search", Args: args}, func() any { return &wire.Call{} }},
		{"progress", &wire.Progress{Output: &wire.Output{Seq: 7, Offset: 4000, Stream: "stdout", Text: text[:200]}}, func() any { return &wire.Progress{} }},
		{"outcome", &wire.Progress{Outcome: &wire.Outcome{Text: text}}, func() any { return &wire.Progress{} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := measure(b, "i1")
			m.alternating("repeatable", 20)
			calls, _ := m.alternating("repeatable", 50)
			var took [2][]time.Duration
			var size [2]int
			for b.Loop() {
				for n, f := range codecs {
					began := time.Now()
					for range 100 {
						data, err := f.encode(c.message)
						check(b, err)
						check(b, f.decode(data, c.empty()))
						size[n] = len(data)
					}
					took[n] = append(took[n], time.Since(began)/100)
				}
			}
			for n, f := range codecs {
				b.ReportMetric(p50(took[n]), f.name+"-µs")
				b.ReportMetric(float64(size[n]), f.name+"-bytes")
				b.ReportMetric(100*p50(took[n])/p50(calls), f.name+"-%-of-call")
			}
		})
	}
}

// codecs are JSON, as the protocol has it, and MessagePack with the same names of fields.
var codecs = [2]struct {
	name   string
	encode func(any) ([]byte, error)
	decode func([]byte, any) error
}{{"json", wire.Encode, json.Unmarshal}, {"msgpack", packed, unpacked}}

func packed(message any) ([]byte, error) {
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.SetCustomStructTag("json")
	err := e.Encode(message)
	return out.Bytes(), err
}

func unpacked(data []byte, into any) error {
	d := msgpack.NewDecoder(bytes.NewReader(data))
	d.SetCustomStructTag("json")
	return d.Decode(into)
}
