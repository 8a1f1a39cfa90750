package system

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
)

// TestTypeScript compiles a client with types that openapi-typescript generates from the document, in strict mode,
// and has it use a session. The document passes Redocly's recommended rules without an error.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	modules := runtest.NPM(t)
	b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("3")))
	b.StartNode((&harness.Approver{}).Factory(events.EffectsNonIdempotent))
	d := b.ServeHTTP(httpapi.Config{})
	dir := t.TempDir()
	runtest.WantError(t, "copy", os.CopyFS(dir, os.DirFS("testdata/typescript")), nil)
	runtest.WantError(t, "modules", os.Symlink(modules, filepath.Join(dir, "node_modules")), nil)
	runtest.WantError(t, "document", os.WriteFile(filepath.Join(dir, "openapi.json"), d.Send("", http.MethodGet, "/v1/openapi.json", "").Body, 0o600), nil)
	run := func(name string, args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(b.Ctx, name, args...)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out)
		}
		return out
	}
	bin := filepath.Join(dir, "node_modules", ".bin")
	run(filepath.Join(bin, "redocly"), "lint", "--extends=recommended", "openapi.json")
	run(filepath.Join(bin, "openapi-typescript"), "openapi.json", "-o", "lash.ts")
	run(filepath.Join(bin, "tsc"), "-p", ".")
	runtest.Equal(t, "what the client saw", strings.TrimSpace(string(run("node", "out/drive.js", d.URL, "writer"+harness.TokenSecret))),
		`{"outcome":{"type":"assistant_message","text":"3"},"tools":["add"],"roles":["user","assistant","user","assistant"],"seq":true,"approved":true,"refused":"no_session"}`)
}
