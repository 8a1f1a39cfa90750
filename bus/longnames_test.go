package bus_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
)

// TestLongNamesThatAreLongCloseNoConnection calls each method of the bus that takes texts with texts of 5 000 bytes. Servers close a
// connection that sends a subject of 4 096 bytes, and the client then never connects again.
func TestLongNamesThatAreLongCloseNoConnection(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	called := 0
	for i := range reflect.TypeFor[*bus.Bus]().NumMethod() {
		name := reflect.TypeFor[*bus.Bus]().Method(i).Name
		b := bustest.Open(t, server)
		method := reflect.ValueOf(b).Method(i)
		args, texts := longArgs(t, method.Type())
		if texts == 0 {
			continue
		}
		called++
		for _, out := range method.Call(args) {
			drain(out)
		}
		if err := b.Conn().FlushTimeout(time.Minute); err != nil {
			t.Errorf("%s closed the connection: %v", name, b.Conn().LastError())
		}
	}
	if called < 20 {
		t.Errorf("got %d methods with texts, want at least 20", called)
	}
}

// longArgs are arguments of a method, and how many long texts are in them; none where it takes functions.
func longArgs(t *testing.T, of reflect.Type) (args []reflect.Value, texts int) {
	t.Helper()
	for i := range of.NumIn() {
		in := of.In(i)
		if of.IsVariadic() && i == of.NumIn()-1 {
			break
		}
		value := reflect.New(in).Elem()
		switch {
		case in == reflect.TypeFor[context.Context]():
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			t.Cleanup(cancel)
			value.Set(reflect.ValueOf(ctx))
		case in.Kind() == reflect.Func, in.Kind() == reflect.Interface:
			return nil, 0
		default:
			texts += lengthen(value)
		}
		args = append(args, value)
	}
	return args, texts
}

// lengthen fills a value with long texts, and counts them.
func lengthen(v reflect.Value) (texts int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", 5000))
		return 1
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return lengthen(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				texts += lengthen(f)
			}
		}
	default:
	}
	return texts
}

// drain reads a result that is a sequence.
func drain(out reflect.Value) {
	if out.Kind() != reflect.Func || out.IsNil() || !out.Type().CanSeq2() {
		return
	}
	for range out.Seq2() {
		return
	}
}

// TestEnded has the servers close the connection of a bus.
func TestEnded(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	select {
	case err := <-b.Ended():
		t.Fatalf("got %v before the end", err)
	default:
	}
	_ = b.Conn().Publish(strings.Repeat("x", 5000), nil) // the server's refusal is what is tested
	if err := bustest.Receive(t, "the end of the connection", b.Ended()); err == nil || !strings.Contains(err.Error(), "maximum control line") {
		t.Errorf("got %v, want the server's reason", err)
	}
	if !b.Closed() {
		t.Error("the connection is not closed")
	}
}
