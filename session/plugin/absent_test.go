package plugin_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/lash-go/lash/session/plugin"
)

// TestAbsent calls every capability of [plugin.Absent]. Optional capabilities do nothing, all others are unavailable.
func TestAbsent(t *testing.T) {
	t.Parallel()
	quiet := []string{
		"TakeFirstTurnInput", "AwaitHiddenTasks", "UnregisterTask", "EndTask", "TransitionTask",
		"CheckTasks", "TransferTasks", "CancelTasksExcept", "EmitTrace",
	}
	host := reflect.ValueOf(plugin.Absent{})
	capabilities := reflect.TypeFor[plugin.RuntimeHost]()
	for i := range capabilities.NumMethod() {
		name := capabilities.Method(i).Name
		method := host.MethodByName(name)
		if name == "Now" { // it has no error
			continue
		}
		args := []reflect.Value{reflect.ValueOf(context.Background())}
		for j := 1; j < method.Type().NumIn(); j++ {
			args = append(args, reflect.Zero(method.Type().In(j)))
		}
		out := method.Call(args)
		err, _ := out[len(out)-1].Interface().(error)
		if want := !slices.Contains(quiet, name); errors.Is(err, plugin.ErrUnavailable) != want {
			t.Errorf("%s: got %v, want unavailable %v", name, err, want)
		}
	}
}
