package page

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// program is lash-node serve with a page, whose callers have tokens of an issuer.
type program struct {
	t       *testing.T
	path    string
	args    []string
	env     []string
	address string
	running *exec.Cmd
}

// start starts the program, and waits until its page is served.
func (n *program) start() {
	n.t.Helper()
	ctx := harness.Context(n.t)
	n.running = exec.CommandContext(ctx, n.path, n.args...) //nolint:gosec // that was just built
	n.running.Env = append(os.Environ(), n.env...)
	runtest.WantError(n.t, "start", n.running.Start(), nil)
	ended, killed := make(chan struct{}), n.running
	go func() { // ends with the program
		defer close(ended)
		_ = killed.Wait()
	}()
	n.t.Cleanup(func() {
		_ = killed.Process.Kill()
		<-ended
	})
	bustest.Eventually(n.t, "the program serves its page", func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.address+"/", http.NoBody)
		runtest.WantError(n.t, "request", err, nil)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
}

// issuerToken writes the configuration of an issuer for the setting http-oidc, and returns a token of it.
func issuerToken(t *testing.T, dir string) (config, token string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	runtest.WantError(t, "key", err, nil)
	key := jose.JSONWebKey{Key: private, KeyID: "k"}
	write := func(name string, v any) string {
		data, err := json.Marshal(v)
		runtest.WantError(t, name, err, nil)
		path := filepath.Join(dir, name)
		runtest.WantError(t, name, os.WriteFile(path, data, 0o600), nil)
		return path
	}
	keys := write("keys.json", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	runtest.WantError(t, "signer", err, nil)
	claims, err := json.Marshal(map[string]any{"iss": "https://a", "aud": "lash", "sub": "alice", "scope": "lash:write", "exp": time.Now().Add(time.Hour).Unix()})
	runtest.WantError(t, "claims", err, nil)
	signed, err := signer.Sign(claims)
	runtest.WantError(t, "sign", err, nil)
	token, err = signed.CompactSerialize()
	runtest.WantError(t, "token", err, nil)
	return write("oidc.json", map[string]string{"issuer": "https://a", "audience": "lash", "keys_file": keys}), token
}

// freeAddress is an address at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.WantError(t, "listen", err, nil)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// TestProcessKilled kills the process of the only node in the middle of a reply, while the page of a user with a token of an
// issuer follows. A new process goes on with the turn, and the page, which does not ask for another sign-in, shows it.
func TestProcessKilled(t *testing.T) {
	t.Parallel()
	runtest.Chromium(t)
	var calls atomic.Int64
	model := llmtest.Endpoint(t, func(*http.Request, llm.Request) llmtest.Reply {
		if calls.Add(1) == 1 {
			r := llmtest.Text("I begin ")
			r.Fault = llmtest.FaultHang
			return r
		}
		return llmtest.Text("The second process says it.")
	})
	dir := t.TempDir()
	config, token := issuerToken(t, dir)
	n := &program{t: t, path: harness.BuildCommand(t, "lash-node"), address: freeAddress(t), env: []string{"OPENAI_BASE_URL=" + model}}
	n.args = []string{"serve", "--store", filepath.Join(dir, "store"), "--listen", "127.0.0.1:0", "--http", n.address, "--set", "http-oidc=" + config, "--model", "m"}
	n.start()
	p := browse(t, "http://"+n.address, desktop)
	p.expect("ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY", "503")
	p.openAs("", token)
	p.click(".side-head button")
	p.write(".talk textarea", "go\r")
	p.awaitText(".message.live", "I begin")
	runtest.WantError(t, "kill", n.running.Process.Kill(), nil)
	p.awaitText(".link", "connecting again")
	n.start()
	p.awaitText(".message.assistant", "The second process says it.")
	p.awaitText(".link", "live")
	p.awaitText(".headline", "Last turn: finished")
	runtest.Equal(t, "messages of the user", eval[int](p, "document.querySelectorAll('.message.user').length"), 1)
	if text := eval[string](p, "document.body.innerText"); strings.Contains(text, token[:20]) {
		t.Error("the page shows the token")
	}
}
