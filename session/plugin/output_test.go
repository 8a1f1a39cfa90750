package plugin_test

import (
	"encoding/json"
	"testing"

	"github.com/lash-go/lash/session/plugin"
)

// TestPlainRequest: the JSON of a request without a form stays the same. Histories have its digest, and a turn that
// continues under a newer version compares the digests.
func TestPlainRequest(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(plugin.CompletionRequest{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"Key":"k","Model":"","Effort":"","Messages":null,"Tools":null,"MaxTokens":0}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
