package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/mcp/oauth"
)

// DefaultTimeout is the limit of a call where the file has none.
const DefaultTimeout = 5 * time.Minute

// DefaultStartTimeout is the limit of a start where the file has none.
const DefaultStartTimeout = 30 * time.Second

// MaxServers limits the servers of a file.
const MaxServers = 128

// maxName limits the name of a server: the names of its tools begin with it.
const maxName = 32

// Server is how to reach a server, and what the operator says about it. It has a Command or a URL.
type Server struct {
	Name    string // a token of at most 32 characters
	Command string
	Args    []string
	Env     map[string]string // of the command, in addition to PATH
	Dir     string            // working directory of the command. Defaults to that of this process
	Sandbox []string          // a command that runs Command, which follows it
	URL     string            // of streamable HTTP
	SSE     bool              // URL is one of HTTP with SSE, the transport of the version 2024-11-05
	Headers map[string]string // of each request

	// Effects tighten what the server claims, by patterns of the server's names of tools, as in Tools: "idempotent", or
	// "non_idempotent", with which a call runs at most once. The strictest one that matches holds.
	Effects map[string]events.Effects
	Tools   []string      // patterns of the names of tools to offer, where * stands for any text. Defaults to all
	Timeout time.Duration // of a call. Defaults to [DefaultTimeout]

	// StartTimeout is how long the server may take to start, and to list its tools. Defaults to [DefaultStartTimeout].
	StartTimeout time.Duration

	// BySession leaves the tools out of sessions until a caller adds them, as a tool source of the server's name.
	BySession bool

	// OAuth is how this node becomes a client of a server behind OAuth, where Headers have no Authorization. Without a File it does not.
	OAuth oauth.Config

	bearer *atomic.Value          // string: the token of the last request over HTTP, which errors do not have
	again  func() (Server, error) // reads the references of the file again: what they name may have changed. nil: there are none
}

// entry is a server in the file. Editors have further fields, which are ignored.
type entry struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	Dir      string            `json:"cwd"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
	Lash     json.RawMessage   `json:"lash"`
}

// settings are the fields of lash in an entry.
type settings struct {
	Effects   map[string]events.Effects `json:"effects"`
	Tools     []string                  `json:"tools"`
	Sandbox   []string                  `json:"sandbox"`
	TimeoutMS int64                     `json:"timeout_ms"`
	StartMS   int64                     `json:"start_timeout_ms"`
	BySession bool                      `json:"by_session"`
	OAuth     oauth.Config              `json:"oauth"`
}

// Parse reads a file with the field mcpServers, as editors have it, and returns the servers that are not disabled, by
// name. In args, env, url and headers ${NAME} and ${env:NAME} stand for a variable, which getenv looks up,
// ${NAME:-TEXT} for TEXT where it is empty, and ${file:PATH} for the content of a file, which readFile reads, without the space around it. The
// field lash of a server has the settings of this package: effects, tools, sandbox, timeout_ms, start_timeout_ms, by_session and oauth. Errors: an
// [*events.FieldError] of a field.
func Parse(data []byte, getenv func(string) string, readFile func(string) ([]byte, error)) ([]Server, error) {
	var file struct {
		Servers map[string]entry `json:"mcpServers"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, invalid("mcpServers", "the file is no JSON of its form: %v", err)
	}
	if file.Servers == nil {
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(data, &fields)
		return nil, invalid("mcpServers", "is missing: the file has the fields %q", slices.Sorted(maps.Keys(fields)))
	}
	if n := len(file.Servers); n == 0 || n > MaxServers {
		return nil, invalid("mcpServers", "has %d servers, want 1 to %d", n, MaxServers)
	}
	var list []Server
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		e := file.Servers[name]
		if e.Disabled {
			continue
		}
		s, err := e.server("mcpServers."+events.Clip(name, events.MaxTokenBytes, "..."), name, references{getenv, readFile})
		if err != nil {
			return nil, err
		}
		s.again = func() (Server, error) { return e.server("mcpServers."+name, name, references{getenv, readFile}) }
		list = append(list, s)
	}
	return list, checkNames(list)
}

// checkNames refuses a server whose tools may have the names of another one's: SERVER__TOOL of one begins with the prefix of the
// other, whose tools it could register first.
func checkNames(list []Server) error {
	for i := range list {
		for j := range list {
			if i != j && strings.HasPrefix(list[j].Name+separator, list[i].Name+separator) {
				return invalid("mcpServers."+list[j].Name, "its tools may have names of tools of server %s: give one of them another name", list[i].Name)
			}
		}
	}
	return nil
}

// server reads an entry, with its references as they are now.
func (e *entry) server(field, name string, refs references) (s Server, err error) {
	if err := events.CheckToken(field, name); err != nil {
		return s, err
	}
	var own settings
	if len(e.Lash) > 0 {
		dec := json.NewDecoder(bytes.NewReader(e.Lash))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&own); err != nil {
			return s, invalid(field+".lash", "%v", err)
		}
	}
	s = Server{
		Name: name, Command: e.Command, Args: slices.Clone(e.Args), Env: maps.Clone(e.Env), Dir: e.Dir, Sandbox: own.Sandbox,
		URL: e.URL, SSE: e.Type == "sse", Headers: maps.Clone(e.Headers), Effects: own.Effects, Tools: own.Tools, BySession: own.BySession,
		OAuth: own.OAuth, bearer: new(atomic.Value),
		Timeout:      cmp.Or(time.Duration(own.TimeoutMS)*time.Millisecond, DefaultTimeout),
		StartTimeout: cmp.Or(time.Duration(own.StartMS)*time.Millisecond, DefaultStartTimeout),
	}
	client := field + ".lash.oauth."
	err = cmp.Or(
		refs.resolve(field+".url", &s.URL), refs.resolveAll(field+".env", s.Env, "\x00"), refs.resolveAll(field+".headers", s.Headers, "\x00\r\n"),
		refs.resolve(client+"client_id", &s.OAuth.ClientID), refs.resolve(client+"client_secret", &s.OAuth.ClientSecret), refs.resolve(client+"file", &s.OAuth.File),
	)
	for i := range s.Args {
		err = cmp.Or(err, refs.resolve(fmt.Sprintf("%s.args[%d]", field, i), &s.Args[i]))
	}
	return s, cmp.Or(err, s.check(field, e.Type))
}

// check refuses a server that cannot be reached, and settings that have no meaning.
func (s *Server) check(field, kind string) error {
	at, err := url.Parse(s.URL)
	switch {
	case len(s.Name) > maxName:
		return invalid(field, "the name has %d characters, limit is %d", len(s.Name), maxName)
	case (s.Command == "") == (s.URL == ""):
		return invalid(field, "want either command or url")
	case !slices.Contains([]string{"", "stdio", "http", "streamable-http", "streamableHttp", "sse"}, kind):
		return invalid(field+".type", "is %.40q, want stdio, http or sse", kind)
	case s.SSE && s.URL == "":
		return invalid(field+".type", "is sse, which needs a url")
	case s.URL != "" && (err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https"):
		return invalid(field+".url", "want http or https, and a host")
	case s.URL == "" && !reflect.ValueOf(s.OAuth).IsZero():
		return invalid(field+".lash.oauth", "is for servers with a url")
	case s.OAuth.Check() != nil:
		return invalid(field+".lash.oauth", "%v", s.OAuth.Check())
	case s.Timeout < 0:
		return invalid(field+".lash.timeout_ms", "is negative")
	case s.StartTimeout < 0:
		return invalid(field+".lash.start_timeout_ms", "is negative")
	}
	for tool, effects := range s.Effects {
		if effects != nonIdempotent && effects != events.EffectsIdempotent { // the file only tightens, so none has no meaning
			return invalid(field+".lash.effects."+events.Clip(tool, events.MaxTokenBytes, "..."), "is %.40q, want idempotent or non_idempotent", effects)
		}
	}
	return nil
}

func (s *Server) startTimeout() time.Duration { return cmp.Or(s.StartTimeout, DefaultStartTimeout) }

// nonIdempotent is the word for [events.EffectsNonIdempotent] in the file.
const nonIdempotent = "non_idempotent"

// references replaces references to secrets.
type references struct {
	getenv   func(string) string
	readFile func(string) ([]byte, error)
}

var reference = regexp.MustCompile(`\$\{([^{}]*)\}`)

func (r references) resolve(field string, text *string) error {
	var failed error
	*text = reference.ReplaceAllStringFunc(*text, func(ref string) string {
		value, err := r.value(field, ref[2:len(ref)-1])
		failed = cmp.Or(failed, err)
		return value
	})
	return failed
}

// resolveAll resolves texts, which have none of some characters.
func (r references) resolveAll(field string, texts map[string]string, none string) error {
	for name, text := range texts {
		if name == "" || strings.ContainsAny(name, "=\x00\r\n") || strings.ContainsAny(text, none) {
			return invalid(field+"."+events.Clip(name, events.MaxTokenBytes, "..."), "a name or a value has characters that it cannot have")
		}
		if err := r.resolve(field+"."+name, &text); err != nil {
			return err
		}
		texts[name] = text
	}
	return nil
}

// value is what a reference stands for. Errors do not have it.
func (r references) value(field, ref string) (string, error) {
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		data, err := r.readFile(path)
		if err != nil {
			return "", invalid(field, "${%s}: %v", ref, err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	name, otherwise, optional := strings.Cut(strings.TrimPrefix(ref, "env:"), ":-")
	value := cmp.Or(r.getenv(name), otherwise)
	if value == "" && !optional {
		return "", invalid(field, "${%s}: the environment has no such variable", ref)
	}
	return value, nil
}

func invalid(field, format string, args ...any) error {
	return &events.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Err: events.ErrInvalid}
}

// leastSecret is the length below which a value is no secret: it is also in texts that are none.
const leastSecret = 6

// maxErrorText limits the text of an error in the log: an error may quote what a server sent.
const maxErrorText = 2 << 10

// Redacted is the text of an error without the path, the query and the user of the URL, and without values of headers and of the
// environment: all of these may be secrets.
func (s *Server) Redacted(err error) string {
	text := fmt.Sprint(err)
	if at, failed := url.Parse(s.URL); failed == nil && at.Host != "" { // check has refused any other URL
		password, _ := at.User.Password()
		shown := at.Scheme + "://" + at.Host
		for _, form := range []string{at.Redacted(), at.String(), stripped(at)} { // of package url, and of package http
			text = strings.ReplaceAll(text, form, shown+"/***")
		}
		text = hide(text, at.RawQuery, password, at.User.Username())
		if len(at.EscapedPath()) > 1 {
			text = strings.ReplaceAll(text, at.Host+at.EscapedPath(), at.Host+"/***")
		}
	}
	return events.Clip(s.withoutSecrets(text), maxErrorText, "...")
}

// withoutSecrets is a text of the server without values of headers and of the environment, as valid UTF-8.
func (s *Server) withoutSecrets(text string) string {
	var values []string
	for _, list := range []map[string]string{s.Headers, s.Env} {
		for _, value := range list {
			values = append(append(values, value), strings.Fields(value)...) // a header may have a word before the secret
		}
	}
	if s.bearer != nil {
		token, _ := s.bearer.Load().(string)
		values = append(values, token)
	}
	values = append(values, s.OAuth.ClientSecret)
	return strings.ToValidUTF8(hide(text, values...), "\uFFFD")
}

// stripped is a URL as errors of package http have it.
func stripped(at *url.URL) string {
	if _, has := at.User.Password(); has {
		return strings.Replace(at.String(), at.User.String()+"@", at.User.Username()+":***@", 1)
	}
	return at.String()
}

// hide replaces secrets, the longest first, also as URLs have them.
func hide(text string, secrets ...string) string {
	forms := make([]string, 0, 3*len(secrets))
	for _, secret := range secrets {
		forms = append(forms, secret, url.QueryEscape(secret), url.PathEscape(secret))
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, form := range forms {
		if len(form) >= leastSecret {
			text = strings.ReplaceAll(text, form, "***")
		}
	}
	return text
}
