package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

// externalFile writes a file of setting external-plugins.
func externalFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugins.json")
	runtest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestExternalPluginsRefused starts nodes with invalid files. Each refusal names the file, the line and the field, and the
// node makes no store.
func TestExternalPluginsRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", events.MaxTokenBytes+1)
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "line 1: "},
		"no_JSON":            {"{\n\"plugins\": [}", "line 2: "},
		"cut":                {"{\n\"plugins\": [\n{\"name\": \"a\"}", "line 3: "},
		"more":               {"{\"plugins\": [{\"name\": \"a\"}]}\n{}", "line 2: something follows"},
		"a_list":             {"[]", "line 1: want an object"},
		"no_plugin":          {"{}", "line 1: plugins: "},
		"empty_list":         {"{\"plugins\": []}", "line 1: plugins: "},
		"unknown_field":      {"{\n\"plugin\": []}", "line 2: plugin: is unknown"},
		"unknown_in_plugin":  {"{\"plugins\": [\n{\"name\": \"a\",\n\"effect\": {}}]}", "line 3: plugins[0].effect: is unknown"},
		"nested":             {"{\"plugins\": [\n{\"name\": {\"a\": {}}}]}", "line 2: plugins[0].name.a: is unknown"},
		"twice_the_field":    {"{\"plugins\": [\n{\"name\": \"a\",\n\n\"name\": \"b\"}]}", "line 4: plugins[0].name: occurs twice"},
		"other_type":         {"{\"plugins\": [\n{\"name\": 7}]}", "line 2: plugins.name: is a number"},
		"no_name":            {"{\"plugins\": [\n{\"name\": \"a\"},\n{\"effects\": {}}]}", "line 3: plugins[1].name"},
		"name_is_no_token":   {"{\"plugins\": [\n{\n\"name\": \"a.b\"}]}", "line 3: plugins[0].name"},
		"name_is_long":       {"{\"plugins\": [\n{\"name\": \"" + long + "\"}]}", "line 2: plugins[0].name"},
		"name_occurs_twice":  {"{\"plugins\": [\n{\"name\": \"a\"},\n{\"name\": \"a\"}]}", "line 3: plugins[1].name: \"a\" occurs twice"},
		"name_of_the_node's": {"{\"plugins\": [\n{\"name\": \"gate\"}]}", "line 2: plugins[0].name: is \"gate\""},
		"effects":            {"{\"plugins\": [\n{\"name\": \"a\", \"effects\": {\n\"x\": \"none\",\n\"y\": \"some\"}}]}", "line 4: plugins[0].effects.y"},
		"effects_of_no_tool": {"{\"plugins\": [\n{\"name\": \"a\", \"effects\": {\n\"\": \"none\"}}]}", "line 3: plugins[0].effects."},
		"callback":           {"{\"plugins\": [\n{\"name\": \"a\", \"callbacks\": [\n\"create\",\n\"fly\"]}]}", "line 4: plugins[0].callbacks[1]"},
		"tool":               {"{\"plugins\": [\n{\"name\": \"a\",\n\"tools\": [\"x*\",\n\"y.z\"]}]}", "line 4: plugins[0].tools[1]"},
		"empty_tool":         {"{\"plugins\": [\n{\"name\": \"a\",\n\"tools\": [\"\"]}]}", "line 3: plugins[0].tools[0]"},
		"hash":               {"{\"plugins\": [\n{\"name\": \"a\",\n\"manifests\": [\"abc\"]}]}", "line 3: plugins[0].manifests[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, store := externalFile(t, c.text), filepath.Join(t.TempDir(), "store")
			_, err := started(t, Config{}, "--store", store, "--listen", "127.0.0.1:0", "--set", "external-plugins="+file)
			if want := "setting external-plugins " + file + ": " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			_, err = os.Stat(store)
			runtest.WantError(t, "store", err, os.ErrNotExist)
		})
	}
	_, err := started(t, Config{}, "--set", "external-plugins="+filepath.Join(t.TempDir(), "none"))
	runtest.WantError(t, "no file", err, os.ErrNotExist)
}

// TestExternalPluginsFields reads a file with every field of [external.Plugin]. The help and the operator's guide name each.
func TestExternalPluginsFields(t *testing.T) {
	t.Parallel()
	want := []external.Plugin{{
		Name: "a", Effects: map[string]events.Effects{"x": "none"}, Callbacks: []string{"create"}, ChangesOthers: true, BySession: true, Tools: []string{"x*"},
		Manifests: []string{strings.Repeat("0a", 32)},
	}}
	text, err := json.Marshal(map[string]any{"plugins": want})
	runtest.NoError(t, err)
	if got, err := parseExternal(text, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	guide, err := os.ReadFile("../../../deploy/nats/OPERATING.md")
	runtest.NoError(t, err)
	flag, _ := reflect.TypeFor[Command]().FieldByName("External")
	for _, field := range reflect.VisibleFields(reflect.TypeFor[external.Plugin]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if reflect.ValueOf(want[0]).FieldByIndex(field.Index).IsZero() {
			t.Errorf("%s: the file of this test does not have it", name)
		}
		if !strings.Contains(flag.Tag.Get("help"), `"`+name+`"`) || !strings.Contains(string(guide), "\n| `"+name+"` |") {
			t.Errorf("%s: want it in the help and in OPERATING.md", name)
		}
	}
}

// letters is a plugin with two tools.
func letters(send events.Effects) plugin.Factory {
	return plugin.Func("letters", func(r *plugin.Registrar) error {
		done := func(context.Context, plugin.Call, struct{}) (string, error) { return "done", nil }
		plugin.AddTool(r, plugin.Tool{Name: "send", Effects: send}, done)
		plugin.AddTool(r, plugin.Tool{Name: "read", Effects: events.EffectsNone}, done)
		return nil
	})
}

// connectPlugin connects with the key that an embedded server made for the plugin.
func connectPlugin(t *testing.T, store, name string) *nats.Conn {
	t.Helper()
	data, err := os.ReadFile(busembed.PluginFile(store, name))
	var a busembed.Access
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	runtest.NoError(t, err)
	nc, err := nats.Connect(a.URL, a.Option())
	runtest.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// TestExternalPlugins starts a node with a file of external plugins. /readyz names what is missing, a manifest that the operator does
// not admit is refused, and the operator's effects are the tools'.
func TestExternalPlugins(t *testing.T) {
	t.Parallel()
	admitted := wireHash(t, letters(events.EffectsNone))
	store := filepath.Join(t.TempDir(), "store")
	file := externalFile(t, fmt.Sprintf(`{"plugins": [
		{"name": "letters", "effects": {"send": "non_idempotent", "other": "idempotent"}, "manifests": [%q], "callbacks": ["create"]},
		{"name": "absent"}]}`, admitted))
	n, err := started(t, Config{}, "--store", store, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--set", "external-plugins="+file, "--allow", "send", "--model", "m")
	runtest.NoError(t, err)
	t.Cleanup(n.Stop)
	ready := func() string {
		t.Helper()
		answer, err := http.Get("http://" + n.watched.server.Addr() + "/readyz")
		runtest.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("/readyz: got %d, %v, want 200", answer.StatusCode, err)
		}
		return string(text)
	}
	const absent = "plugin absent: no manifest is registered: sessions do not have its tools\n"
	if got, want := ready(), "ready\nplugin letters: no manifest is registered: sessions do not have its tools\n"+absent; got != want {
		t.Errorf("/readyz: got %q, want %q", got, want)
	}
	nc := connectPlugin(t, store, "letters")
	_, err = remote.Start(t.Context(), remote.Config{Conn: nc, Plugin: letters(events.EffectsIdempotent), Version: "1"})
	if refused, ok := errors.AsType[*wire.Error](err); !ok || refused.Code != wire.CodeConflict || !strings.Contains(refused.Message, admitted) ||
		!strings.Contains(refused.Message, wireHash(t, letters(events.EffectsIdempotent))) {
		t.Errorf("another manifest: got %v, want a conflict that names both hashes", err)
	}
	i, err := remote.Start(t.Context(), remote.Config{Conn: nc, Plugin: letters(events.EffectsNone), Version: "1"})
	runtest.NoError(t, err)
	const unknown = "plugin letters: the settings name its tool other, which it does not have\n"
	awaitText(t, ready, "ready\n"+unknown+absent)
	runtest.NoError(t, i.Stop(t.Context()))
	awaitText(t, ready, "ready\nplugin letters: no instance lives: its calls fail as unavailable\n"+unknown+absent)
}

// awaitText waits until a text is as wanted.
func awaitText(t *testing.T, text func() string, want string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("got %q", text())
		}
	}()
	bustest.Eventually(t, want, func() bool { return text() == want })
}

// wireHash is the hash of the manifest that a plugin registers, as its version 1.
func wireHash(t *testing.T, p plugin.Factory) string {
	t.Helper()
	declared, err := plugin.Declare(p)
	runtest.NoError(t, err)
	m := wire.Manifest{Version: "1"}
	for _, e := range declared.Tools.Entries() {
		m.Tools = append(m.Tools, wire.Tool{Name: e.Name, Description: e.Description, Schema: e.Look().Schema, Effects: e.Effects, Serial: e.Serial})
	}
	return m.Hash()
}
