package config_test

import (
	"bytes"
	"testing"

	"github.com/lash-go/lash/cmd/lash-node/config"
)

// FuzzConfig reads configuration files. Nothing panics, and what is no JSON is refused.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"store":"x","archive-after":"3s","roles":["turn"]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, file []byte) {
		resolver, err := config.JSON(bytes.NewReader(file))
		if trimmed := bytes.TrimSpace(file); err == nil && (resolver == nil || len(trimmed) == 0) {
			t.Errorf("got %v of %q, want an error", resolver, file)
		}
	})
}
