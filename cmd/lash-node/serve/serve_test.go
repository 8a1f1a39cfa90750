package serve

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// own is a provider with its own id and list of models. Its reply names the tools of the request, and whether it has the
// hook's text.
type own struct {
	*scripted.Provider
	id     string
	models []string
}

func (p own) ID() string                               { return p.id }
func (p own) Models(context.Context) ([]string, error) { return p.models, nil }

func ownOf(id string, models ...string) llm.Provider {
	return own{scripted.New(func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		offered := []string{id, req.Model}
		for _, tool := range req.Tools {
			offered = append(offered, tool.Name)
		}
		for _, m := range req.Messages {
			if len(m.Parts) == 1 && m.Parts[0].Text == hookText {
				offered = append(offered, "hooked")
			}
		}
		return scripted.Answer{Response: llm.Response{Parts: scripted.Text(strings.Join(offered, " ")), Stop: events.StopEnd}}, nil
	}), id, models}
}

func shout(id string) plugin.Factory {
	return plugin.OfTool(plugin.Tool{Name: id, Effects: events.EffectsNone},
		func(_ context.Context, _ plugin.Call, in struct{ Text string }) (string, error) {
			return strings.ToUpper(in.Text), nil
		})
}

const hookText = "Answer in verse."

// hooked adds a hook that says its text before each turn.
func hooked(id string) plugin.Factory {
	return plugin.Func(id, func(r *plugin.Registrar) error {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, hookText))}, nil
		})
		return nil
	})
}

func silent() *program.Streams {
	return &program.Streams{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}
}

// started starts a node from a command line.
func started(t *testing.T, cfg Config, args ...string) (*Node, error) {
	t.Helper()
	c, err := cfg.parsed(silent(), args...)
	if err != nil {
		return nil, err
	}
	return c.start(t.Context(), silent())
}

// TestProgramAdditions starts nodes of a program that adds a tool, a hook and providers. --plugins accepts the tool and the
// hook, whose text is in the model's request, and --provider and --model the providers.
func TestProgramAdditions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ args, want string }{
		"default":  {"--model m --plugins default", "mine m shout update_plan hooked"},
		"named":    {"--model n --plugins shout", "mine n shout"},
		"hook":     {"--model m --plugins verse", "mine m hooked"},
		"left_out": {"--model m --plugins todo", "mine m update_plan"},
		"none":     {"--model m --plugins none", "mine m"},
		"second":   {"--model o --plugins shout --provider other", "other o shout"},
		"replaced": {"--model p --plugins shout --provider scripted", "scripted p shout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{
				Plugins: []plugin.Factory{shout("shout"), hooked("verse")}, Logger: zaptest.NewLogger(t),
				Providers: []llm.Provider{ownOf("mine", "m", "n"), ownOf("other", "o"), ownOf("scripted", "p")},
			}
			args := append(strings.Fields(tc.args), "--store", t.TempDir(), "--listen", "127.0.0.1:0")
			node, err := started(t, cfg, args...)
			runtest.NoError(t, err)
			defer node.Stop()
			id, err := node.Host().Create(t.Context(), api.CreateRequest{})
			runtest.NoError(t, err)
			turn, err := node.Host().Run(t.Context(), id, api.Ask("hi"))
			got := strings.Fields(turn.Text)
			if name == "default" { // default has the shipped ones too
				got = slices.DeleteFunc(got, func(flagWord string) bool { return !slices.Contains(strings.Fields(tc.want), flagWord) })
			}
			if err != nil || strings.Join(got, " ") != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestHelpNamesProviders reads the help of programs with providers of their own, and without.
func TestHelpNamesProviders(t *testing.T) {
	t.Parallel()
	const want = "Model providers of this program: mine, other. The default of --provider is mine."
	with := &Command{adds: Config{Providers: []llm.Provider{ownOf("mine"), ownOf("other")}}}
	if got := with.Help(); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	if got := (&Command{}).Help(); strings.Contains(got, "Model providers of this program") {
		t.Errorf("got %q, want no providers", got)
	}
}

// TestAdditionsAreChecked: additions that flags could not name are refused before anything starts.
func TestAdditionsAreChecked(t *testing.T) {
	t.Parallel()
	store, locks := filepath.Join(t.TempDir(), "st"), filepath.Join(t.TempDir(), "locks")
	runtest.NoError(t, os.WriteFile(locks, []byte(`{"providers":["anthropic","a"],"models":["large-*"]}`), 0o600))
	for name, tc := range map[string]struct {
		cfg  Config
		args []string
		want string
	}{
		"shipped":        {Config{Plugins: []plugin.Factory{shout("gate")}}, nil, `plugin "gate": want an id of its own`},
		"twice":          {Config{Plugins: []plugin.Factory{shout("a"), shout("a")}}, nil, `plugin "a": want an id of its own`},
		"word":           {Config{Plugins: []plugin.Factory{shout("none")}}, nil, `plugin "none": want`},
		"nameless":       {Config{Plugins: []plugin.Factory{shout("")}}, nil, `plugin "": want`},
		"comma":          {Config{Plugins: []plugin.Factory{shout("a,b")}}, nil, `plugin "a,b": want an id of its own, without commas`},
		"provider_twice": {Config{Providers: []llm.Provider{ownOf("a"), ownOf("a")}}, nil, `provider "a": want an id of its own`},
		"no_such_plugin": {Config{Plugins: []plugin.Factory{shout("a")}}, []string{"--plugins", "b"}, `"b" is no plugin: want history, budget, todo, plan_mode, subagent, gate, files, shell, background, timer, tool_search, a, default`},
		"no_provider":    {Config{Providers: []llm.Provider{ownOf("a")}}, []string{"--provider", "b"}, `--provider b: there is no such provider: it is one of openai, openai-responses, anthropic, scripted, a`},
		"no_model":       {Config{Providers: []llm.Provider{ownOf("a", "large")}}, []string{"--model", "small"}, `--listen: address nowhere`}, // the list of the model's provider only warns
		"lock_providers": {Config{Providers: []llm.Provider{ownOf("a")}}, []string{"--provider", "b", "--set", "locks=" + locks}, `--provider b: there is no such provider: it is one of anthropic, a`},
		"lock_models":    {Config{Providers: []llm.Provider{ownOf("a", "a-small", "large-1")}}, []string{"--model", "small", "--set", "locks=" + locks}, `the node's own model small is not among the locks' models ["large-*"]`},
		"locks_missing":  {Config{Providers: []llm.Provider{ownOf("a", "a-small", "large-1")}}, []string{"--set", "locks=" + locks}, `--model is missing: a has large-1`},
		"locks_all":      {Config{Providers: []llm.Provider{ownOf("a", "small")}}, []string{"--set", "locks=" + locks}, `--model is missing: a has none that may be named`},
		"no_flag":        {Config{}, []string{"--no-such"}, `--no-such`},
	} {
		node, err := started(t, tc.cfg, append(tc.args, "--store", store, "--listen", "nowhere")...)
		if err == nil {
			node.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.want)
		}
	}
}

// TestUsageOfStandaloneProgram prints the usage of the command as a program of its own: with its name, its plugins and the flags.
func TestUsageOfStandaloneProgram(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := silent()
	s.Out = &out
	cfg := Config{Plugins: []plugin.Factory{shout("shout")}}
	code := cfg.cli("mine", &standalone{}).Run(t.Context(), []string{"--help"}, s)
	for _, want := range []string{
		"Usage: mine [flags]", "shout       of this program", "default     history,budget,todo,plan_mode,subagent,gate,shout", "--nats=URL", "--version",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("--help: got exit code %d and %q, want %q", code, out.String(), want)
		}
	}
	config := filepath.Join(t.TempDir(), "config.json")
	for file, want := range map[string]string{`{"listen":"nowhere"}`: "--listen: address nowhere", `{"lisen":"x"}`: `"lisen" is no setting and no flag`} {
		runtest.NoError(t, os.WriteFile(config, []byte(file), 0o600))
		var errs strings.Builder
		s := silent()
		s.Err = &errs
		code := cfg.cli("mine", &standalone{}).Run(t.Context(), []string{"--config", config, "--store", t.TempDir()}, s)
		if code != program.Failed || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: got exit code %d and %q, want %q", file, code, errs.String(), want)
		}
	}
}

// TestSettingsOfCheck gives a program's check the file of its node. It refuses what the node's flags do not have either.
func TestSettingsOfCheck(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.json")
	for file, want := range map[string]string{
		`{"listen": "x", "max-hot": 3, "environments": "/no/such"}`: "setting environments: ", `{"lisen": "x"}`: `"lisen" is no setting and no flag`,
	} {
		runtest.NoError(t, os.WriteFile(config, []byte(file), 0o600))
		var errs strings.Builder
		s := silent()
		s.Err = &errs
		if code := (Config{}).checkCLI("mine").Run(t.Context(), []string{"--config", config, "../../lash-replay/testdata/archives"}, s); code != program.Failed || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: got exit code %d and %q, want %q", file, code, errs.String(), want)
		}
	}
}

// TestCallers sets the sources of callers, each alone and together.
func TestCallers(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]httpFlags{
		"bearers of tokens in t":                                                                          {HTTPTokens: "t"},
		"bearers of tokens of the issuer in i":                                                            {HTTPOIDC: "i"},
		"bearers of tokens in t, bearers of tokens of the issuer in i":                                    {HTTPTokens: "t", HTTPOIDC: "i"},
		"bearers of tokens and holders of certificates in t":                                              {HTTPTokens: "t", HTTPClientCA: "c", HTTPClientCert: "optional"},
		"bearers of tokens and holders of certificates in t, all with a certificate of an authority in c": {HTTPTokens: "t", HTTPClientCA: "c", HTTPClientCert: "required"},
	} {
		if got := f.callers(); got != want {
			t.Errorf("%+v: got %q, want %q", f, got, want)
		}
	}
}
