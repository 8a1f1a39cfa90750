package security

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// forger makes hostile requests, deterministic for a seed.
type forger struct {
	*rand.Rand
	names  []string // of sessions, for ids, parents and whatever else takes a text
	change string   // what the last request differs in from a valid one
}

func newForger(seed, worker uint64) *forger {
	return &forger{Rand: rand.New(rand.NewPCG(seed, worker))}
}

func (f *forger) unique() string { return fmt.Sprint("u", f.Uint32()) }

func pick[T any](f *forger, list ...T) T { return list[f.IntN(len(list))] }

// text is a text of any kind, mostly short.
func (f *forger) text() string {
	switch f.IntN(12) {
	case 0:
		return strings.Repeat("x", f.IntN(3000))
	case 1:
		return strings.Repeat("é", f.IntN(200<<10))
	case 2:
		return string(harness.Nest(f.IntN(300), "[", "", "]"))
	case 3, 4, 5, 6:
		return pick(f, f.names...)
	}
	return pick(f, "", "t1", "i1", "n1", "f1", "t1/0/0", "system", "user", "tool", "inject", "interrupt", "reject", "plugin", "message", "off", "read", "write", "text", "attachment", "tool_call",
		"a.b", "*", ">", "../x", "a b", "\x00", "\x1b[2J", "\xff\xfe", "null", "{}", "-1", "1e999", "__proto__", "m\u202e")
}

func (f *forger) number() int64 {
	return pick(f, 0, 1, -1, 2, 1<<31, 1<<53+1, -1<<63, 1<<63-1, int64(f.IntN(1000)))
}

// value is any JSON.
func (f *forger) value(depth int) any {
	switch n := f.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return f.IntN(2) == 0
	case n == 2:
		return f.number()
	case n < 5 || depth > 3:
		return f.text()
	case n == 5:
		return json.RawMessage(harness.Nest(f.IntN(400), `{"a":`, "1", "}"))
	case n == 6:
		list := make([]any, f.IntN(4))
		for i := range list {
			list[i] = f.value(depth + 1)
		}
		return list
	}
	return map[string]any{f.field(): f.value(depth + 1), f.field(): f.value(depth + 1)}
}

// field is a name of a field that a request may have.
func (f *forger) field() string {
	return pick(f, "id", "text", "parts", "role", "nodes", "message", "options", "plugins", "config", "parent", "labels", "access", "continue", "when_busy", "boundary", "keep", "reason",
		"call", "names", "level", "rights", "node", "kind", "type", "body", "requires_ancestor", "model", "protocol", "X", "")
}

// json is the body of an operation over HTTP, changed in some places.
func (f *forger) json(op harness.Operation, fresh string) string {
	valid := strings.Replace(harness.ValidBodies()[op.ID], `"f9"`, strconv.Quote(f.unique()), 1)
	if valid == "" {
		return ""
	}
	return f.mutated(valid, func(root any) {
		if m, ok := root.(map[string]any); ok && (op.ID == "createSession" || op.ID == "forkSession") {
			m["id"] = fresh
		}
	})
}

// mutated is JSON that is changed in some places, after set has changed the valid value.
func (f *forger) mutated(valid string, set func(root any)) string {
	var root any
	_ = json.Unmarshal([]byte(valid), &root)
	set(root)
	for range f.IntN(4) {
		root, f.change = f.changed(root, 0), "values"
	}
	data, err := json.Marshal(root)
	if err != nil {
		return valid
	}
	return f.broken(string(data))
}

// broken is some JSON in a form that is wrong, or as it is.
func (f *forger) broken(text string) string {
	switch f.IntN(24) {
	case 0:
		if inside, ok := strings.CutPrefix(text, "{"); ok {
			f.change = "twice a field"
			return `{"` + f.field() + `":1,` + inside
		}
	case 1:
		f.change = "cut"
		return text[:f.IntN(len(text)+1)]
	case 2:
		f.change = "twice"
		return text + text
	case 3:
		f.change = "nested"
		return string(harness.Nest(f.IntN(5000), "[", "", "]"))
	case 4:
		if f.IntN(20) == 0 {
			f.change = "large"
			return `{"text":"` + strings.Repeat("x", 1<<20+f.IntN(100)) + `"}`
		}
	}
	return text
}

// changed changes a value somewhere.
func (f *forger) changed(v any, depth int) any {
	if depth > 0 && f.IntN(3) == 0 || depth > 6 {
		return f.value(0)
	}
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		switch {
		case len(names) == 0 || f.IntN(4) == 0:
			v[f.field()] = f.value(0)
		case f.IntN(5) == 0:
			delete(v, pick(f, names...))
		default:
			name := pick(f, names...)
			v[name] = f.changed(v[name], depth+1)
		}
		return v
	case []any:
		if len(v) == 0 || f.IntN(4) == 0 {
			return append(v, f.value(1))
		}
		i := f.IntN(len(v))
		v[i] = f.changed(v[i], depth+1)
		return v
	}
	return f.value(0)
}

// msgpack is the body of an operation over NATS, changed in some places.
func (f *forger) msgpack(op operation.Name, fresh string) []byte {
	body := hostileBody(op)
	switch b := body.(type) { // requests with an id are done once
	case *api.CreateArgs:
		b.Request.ID = events.SessionID(fresh)
	case *api.TurnRequest:
		b.ID = events.TurnID(f.unique())
	case *api.SubmitAtArgs:
		b.Request.ID = events.TurnID(f.unique())
	case *api.InjectRequest:
		b.ID = events.InputID(f.unique())
	case *api.FrameRequest:
		b.Frame = events.FrameID(f.unique())
	case *api.AppendNodesRequest:
		b.Nodes[0].ID = events.NodeID(f.unique())
	}
	for range f.IntN(4) {
		f.change = "values"
		f.set(reflect.ValueOf(body).Elem(), 0)
	}
	data, err := events.EncodePayload(body)
	if err != nil || len(data) == 0 {
		return []byte{0xc1}
	}
	if f.IntN(16) < 5 {
		return f.bytes(data)
	}
	return data
}

// bytes changes some bytes, of which there is at least one.
func (f *forger) bytes(data []byte) []byte {
	data = slices.Clone(data)
	i := f.IntN(len(data))
	switch f.IntN(5) {
	case 0:
		f.change = "flipped"
		data[i] ^= byte(1 << f.IntN(8))
	case 1:
		f.change = "cut"
		data = data[:i]
	case 2:
		f.change = "twice"
		data = slices.Concat(data, data)
	case 3:
		f.change = "nested"
		data = harness.Nest(f.IntN(5000), "\x91", "\xc0", "")
	default:
		f.change = "longer"
		data = slices.Insert(data, i, byte(f.IntN(256)))
	}
	return data
}

// set changes a field somewhere in the request of a client's program.
func (f *forger) set(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int64:
		v.SetInt(f.number())
	case reflect.Uint64:
		v.SetUint(uint64(f.number()))
	case reflect.Float64:
		v.SetFloat(float64(f.number()))
	case reflect.Pointer:
		if v.IsNil() || f.IntN(6) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
		}
		f.set(v.Elem(), depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(f.text()))
			return
		}
		if v.Len() == 0 || f.IntN(4) == 0 {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		}
		f.set(v.Index(f.IntN(v.Len())), depth+1)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.set(key, depth+1)
		f.set(value, depth+1)
		m.SetMapIndex(key, value)
		v.Set(m)
	case reflect.Struct:
		f.setField(v, depth)
	default:
	}
}

// setField does not set fields that would erase a session during the test, and states, which requests carry in
// other ways.
func (f *forger) setField(v reflect.Value, depth int) {
	var open []reflect.Value
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.IsExported() && field.Name != "RetainMillis" && field.Tag.Get("msgpack") != "-" {
			open = append(open, v.Field(i))
		}
	}
	if len(open) > 0 && depth < 8 {
		f.set(open[f.IntN(len(open))], depth+1)
	}
}
