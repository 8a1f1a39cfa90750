package serve

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
)

// TestIdleFlags sets every flag of the HTTP server without --http, and every flag of external servers without --nats.
// Each is refused by name, and nothing starts.
func TestIdleFlags(t *testing.T) {
	t.Parallel()
	idle, settings := map[string]string{"nats-scopes": "--nats URL"}, map[string]bool{"nats-scopes": true}
	for _, of := range []struct {
		flags any
		skip  []string
		needs string
	}{{httpFlags{}, []string{"HTTP"}, "--http HOST:PORT"}, {connect.Flags{}, []string{"Prefix", "Inbox", "BodiesFlags", "Bodies"}, "--nats URL"}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of.flags)) {
			name := field.Tag.Get("name")
			if name == "" {
				name = strings.ToLower(field.Name)
			}
			if !strings.Contains(" "+strings.Join(of.skip, " ")+" ", " "+field.Name+" ") {
				idle[name] = of.needs
				_, settings[name] = field.Tag.Lookup("setting")
			}
		}
	}
	if len(idle) < 14 {
		t.Fatalf("got %v, want all flags", idle)
	}
	values := map[string]string{"http-connections": "1", "http-client-cert": "optional", "http-proxy-header": "forwarded", "no-http-page": "true"}
	for name, needs := range idle {
		value := values[name]
		if value == "" {
			value = "x"
		}
		var out strings.Builder
		args, said := []string{"--store", t.TempDir(), "--listen", "nowhere", "--" + name + "=" + value}, "--"+name
		if settings[name] {
			args[len(args)-1], said = "--set="+name+"="+value, "the setting "+name
		}
		code := Config{}.cli("node", &standalone{}).Run(t.Context(), args, &program.Streams{Out: io.Discard, Err: &out, Env: func(string) string { return "" }})
		if want := said + " does nothing without " + needs; code != program.Failed || !strings.Contains(out.String(), want) {
			t.Errorf("--%s: got exit code %d and %q, want %q", name, code, out.String(), want)
		}
	}
}
