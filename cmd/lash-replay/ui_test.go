package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/internal/runtest"
	sessionarchive "github.com/lash-go/lash/session/archive"
)

// uiOutput is what ui --json prints.
type uiOutput struct{ URL, Token, Source string }

// startUI runs lash-replay ui until the test ends.
func startUI(t *testing.T, args ...string) (out uiOutput) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"ui", "--json"}, args...), &program.Streams{Out: write, Err: t.Output(), Env: func(string) string { return "" }})
		_ = write.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("ui: got exit code %d, want 0", code)
		}
	})
	lines := bufio.NewScanner(read)
	if !lines.Scan() {
		t.Fatalf("ui: it ended before it served: %v", lines.Err())
	}
	runtest.NoError(t, json.Unmarshal(lines.Bytes(), &out))
	return out
}

// ask sends a request with the token of the output.
func (o uiOutput) ask(t *testing.T, token, method, path string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(o.URL, "/")+path, strings.NewReader("{}"))
	runtest.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Close = true
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	runtest.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	runtest.NoError(t, err)
	return got.StatusCode, string(data)
}

// TestUI serves archives and a store to the bearer of the token, who may only read.
func TestUI(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	server, err := busembed.Start(busembed.Config{StoreDir: store})
	runtest.NoError(t, err)
	restoreInto(t, server)
	server.Stop()
	running := bustest.Server(t, busembed.Config{Listen: true})
	restoreInto(t, running)
	odd := filepath.Join(t.TempDir(), "a\ntoken b.lash")
	data, err := os.ReadFile("testdata/archives/answered.lash")
	if err == nil {
		err = os.WriteFile(odd, data, 0o600)
	}
	runtest.NoError(t, err)
	for name, c := range map[string]struct {
		args   []string
		source string
	}{
		"odd":    {[]string{odd}, `the archive a\ntoken b.lash`},
		"folder": {[]string{"testdata/archives"}, "2 archives"},
		"file":   {[]string{"testdata/archives/answered.lash"}, "the archive answered.lash"},
		"flag":   {[]string{"--file", "testdata/archives/answered.lash"}, "the archive answered.lash"},
		"store":  {[]string{"--store", store}, "the store " + store},
		"server": {[]string{"--nats", running.URL()}, "the server " + running.URL()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := startUI(t, c.args...)
			runtest.Equal(t, "source", out.Source, c.source)
			if status, body := out.ask(t, out.Token, "GET", "/"); status != 200 || !strings.Contains(body, "/page/app.js") {
				t.Errorf("page: got %d %.200s", status, body)
			}
			if status, body := out.ask(t, out.Token, "GET", "/page/settings.json"); status != 200 || !strings.Contains(body, `"read_only":true`) {
				t.Errorf("settings: got %d %s, want a page that only shows", status, body)
			}
			for _, at := range []string{"/", "/page/settings.json", "/page/app.js", "/v1/openapi.json", "/v1/sessions", "/v1/source", "/v1/prices", "/v1/none"} {
				for _, token := range []string{"", "guess"} {
					status, body := out.ask(t, token, "GET", at)
					if strings.HasPrefix(at, "/v1/") && at != "/v1/openapi.json" && status < 400 {
						t.Errorf("%s with the token %q: got %d, want it refused", at, token, status)
					}
					if strings.Contains(body, c.source) || strings.Contains(body, c.args[len(c.args)-1]) {
						t.Errorf("%s with the token %q: got %s, want no name of the source", at, token, body)
					}
				}
			}
			if status, body := out.ask(t, out.Token, "GET", "/v1/source"); status != 200 || !strings.Contains(body, strings.Trim(strconv.Quote(c.source), `"`)) {
				t.Errorf("source: got %d %s, want %s", status, body, c.source)
			}
			if status, _ := out.ask(t, out.Token, "POST", "/v1/sessions"); status != 403 {
				t.Errorf("create: got %d, want 403", status)
			}
			status, body := out.ask(t, out.Token, "GET", "/v1/sessions")
			var list struct{ Sessions []struct{ ID string } }
			if err := json.Unmarshal([]byte(body), &list); err != nil || status != 200 || len(list.Sessions) == 0 {
				t.Fatalf("sessions: got %d %s, %v, want some", status, body, err)
			}
			session := list.Sessions[0].ID
			if status, body := out.ask(t, out.Token, "GET", "/v1/sessions/"+session+"/view"); status != 200 || !strings.Contains(body, `"messages"`) {
				t.Errorf("view: got %d %s", status, body)
			}
			if status, body := out.ask(t, out.Token, "GET", "/v1/search?text=FAST,&text=please"); status != 200 || !strings.Contains(body, `"text":"And fast, please."`) {
				t.Errorf("search: got %d %s", status, body)
			}
			if status, body := out.ask(t, "guess", "GET", "/v1/search?text=fast"); status != 401 || strings.Contains(body, "please") {
				t.Errorf("search with a wrong token: got %d %s", status, body)
			}
			if status, body := out.ask(t, out.Token, "GET", "/v1/sessions/"+session); status != 200 || !strings.Contains(body, `"seq"`) {
				t.Errorf("state: got %d %s", status, body)
			}
		})
	}
}

// restoreInto puts an archive into a server.
func restoreInto(t *testing.T, server *busembed.Server) {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}})
	runtest.NoError(t, err)
	defer b.Close()
	a, err := openArchive("testdata/archives/answered.lash", 1, nil)
	if err == nil {
		_, err = sessionarchive.Restore(t.Context(), b, a.file)
	}
	runtest.NoError(t, err)
}

// TestUIRefuses checks that wrong flags end the command with what to do next.
func TestUIRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"everywhere": {[]string{"--listen", "0.0.0.0:0", "testdata/archives"}, "listen on 127.0.0.1"},
		"no_port":    {[]string{"--listen", "127.0.0.1", "testdata/archives"}, "--listen"},
		"both":       {[]string{"--store", "x", "testdata/archives"}, "give one"},
		"no_file":    {[]string{"nothing.lash"}, "no such file"},
		"no_archive": {[]string{"testdata/help.txtar"}, "is not an archive"},
		"no_folder":  {[]string{t.TempDir()}, "lash-replay export writes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			code := run(t.Context(), append([]string{"ui"}, c.args...), &program.Streams{Out: io.Discard, Err: &out, Env: func(string) string { return "" }})
			if code != exitError || !strings.Contains(out.String(), c.want) {
				t.Errorf("got exit code %d and %q, want %q", code, out.String(), c.want)
			}
		})
	}
}
