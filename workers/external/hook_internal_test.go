package external

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/session/plugin/wire"
)

// TestLargeHookCall: a call of a hook that no message can carry fails before it is sent.
func TestLargeHookCall(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Plugins: []Plugin{{Name: "notes"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for size, want := range map[int]string{wire.MaxHookCall: "limit is 921600", wire.MaxHookCall - 1000: errNotCalled.Error()} {
		_, err := p.callHook(context.Background(), "notes", "", &wire.Hook{Name: "h"}, wire.HookCall{Input: strings.Repeat("x", size)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", size, err, want)
		}
	}
}
