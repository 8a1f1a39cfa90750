package plugin_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/session/api"
)

// TestActionWithALongName invokes actions by a name of 300 KB: the errors are short, and say what is wrong.
func TestActionWithALongName(t *testing.T) {
	t.Parallel()
	s := stack(t)
	for args, want := range map[string]struct {
		err  error
		text string
	}{
		`{}`: {api.ErrUnknownAction, "é..."},
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000): {api.ErrInvoke, "args: "},
	} {
		_, err := s.InvokeAction(t.Context(), strings.Repeat("é", 150_000), json.RawMessage(args), "s", true, nil)
		if !errors.Is(err, want.err) || !strings.Contains(err.Error(), want.text) || len(err.Error()) > 1000 {
			t.Errorf("args %.20s: got %.300q, want %v with %q", args, err, want.err, want.text)
		}
	}
}
