package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/schema"
	show "github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/workers/builtin/background"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/shell"
)

// attacksOnFiles has a model name denied files, and files outside the directory, in every way to every tool.
// [harness.CheckCalls] compares the results.
func attacksOnFiles(t *testing.T) (list []attack) {
	t.Helper()
	dir, names := harness.DeniedDir(t)
	var calls []harness.CallCase
	add := func(transport, tool, name string, args map[string]string) {
		data, err := json.Marshal(args)
		runtest.WantError(t, "arguments", err, nil)
		calls = append(calls, harness.CallCase{tool, string(data), "[failed] …"})
		list = append(list, attack{transport, "path traversal", tool + "_" + name, func() string { return "" }})
	}
	names = append(names, "../secret", "a/../../secret", "/etc/passwd", "..", "x.env\x00.txt", "./private/../../x")
	for _, name := range names {
		for tool, args := range map[string]map[string]string{
			"read_file": {}, "write_file": {"content": "changed"}, "edit_file": {"old": "hidden", "new": "changed"},
		} {
			args["path"] = name
			add("model output", tool, name, args)
		}
	}
	for _, cwd := range []string{"private", "./private/", "a/../private", "dir", "dirs", "a/b/dir", "here/dir", "PRIVATE", "/private", "/dirs"} {
		for _, tool := range []string{"run_command", "monitor_start"} {
			add("command", tool, cwd, map[string]string{"command": "cat key.txt", "cwd": cwd, "id": "m"})
		}
	}
	rules := gate.Options{Allow: []string{"*"}, Deny: []string{"*:*.env", "*:private/*"}}
	harness.CheckCalls(t, calls, gate.Factory(gate.Config{Options: rules, Root: dir}), harness.FilesPlugin(t, files.Config{Root: dir, Rules: rules}),
		harness.ShellPlugin(t, shell.Config{Dir: dir}), background.Factory(background.Config{Dir: dir}))
	for _, name := range []string{"x.env", "private/key.txt"} {
		runtest.Equal(t, name, harness.ReadFile(t, dir+"/"+name), "hidden\n")
	}
	return list
}

// refusing is an attack on a reader of bytes, which must refuse them.
func refusing(transport, class, name string, read func() error) attack {
	return attack{transport, class, name, func() string {
		if read() == nil {
			return "it was taken"
		}
		return ""
	}}
}

// attacksOnReaders sends nested values to every reader, and hostile archives, schemas and options.
func attacksOnReaders(t *testing.T) (list []attack) {
	t.Helper()
	transportOf := map[string]string{
		"tool_arguments": "model output", "openai": "model output", "anthropic": "model output", "plugin_options": "plugin options", "code_options": "plugin options",
		"schema": "schema", "output": "schema", "code_schema": "schema", "program_state": "tool output", "recording": "export file",
	}
	for name, reader := range jsonReaders(t) {
		if !reader.refuses {
			continue
		}
		for form, data := range map[string][]byte{
			"arrays": harness.Nest(100_000, "[", "", "]"), "objects": harness.Nest(100_000, `{"a":`, "1", "}"), "open": harness.Nest(100_000, "[", "", ""),
			"open_objects": harness.Nest(100_000, `{"not":`, "", ""), "schemas": harness.Nest(100_000, `{"not":`, "{}", "}"), "lists": harness.Nest(50_000, `{"allOf":[`, "{}", "]}"),
		} {
			list = append(list, refusing(transportOf[name], "depth", name+"_"+form, func() error { return reader.read(data) }))
		}
	}
	for i, text := range []string{
		`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`, `{"not":{"$ref":"#"}}`, `{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, `{"$dynamicRef":"#x","$dynamicAnchor":"x"}`,
		`{"$ref":"http://127.0.0.1:1/x"}`, `{"$ref":"file:///etc/passwd"}`, `{"$ref":"#/$defs/none"}`, `{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`,
		`{"items":{"$ref":"#"},"contains":{"$ref":"#"}}`, `{"anyOf":[` + strings.Repeat("{},", 6000) + `{}]}`, `{"description":"` + strings.Repeat("x", 300<<10) + `"}`,
	} {
		list = append(list, refusing("schema", "schema bomb", fmt.Sprint(i), func() error {
			s, err := schema.Parse("schema", []byte(text))
			if err == nil {
				_, err = schema.Compile("schema", s)
			}
			return err
		}))
	}
	for i, text := range []string{`[]`, `1`, `"x"`, `{"deny":1}`, `{"deny":{}}`, `{"deny":[1]}`, `{`, "\xff", `{"allow":"*"}`, `{} {}`, ``} {
		list = append(list, refusing("plugin options", "schema", fmt.Sprint(i), func() error {
			_, _, err := plugin.DecodeOptions[gate.Options](plugin.Options{gate.ID: text}, gate.ID)
			return err
		}))
	}
	return append(list, attacksOnArchives(t)...)
}

// attacksOnArchives changes an archive at many places, and makes some invalid ones.
func attacksOnArchives(t *testing.T) (list []attack) {
	t.Helper()
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, "s1", 1)
	runtest.WantError(t, "archive", err, nil)
	runtest.WantError(t, "commit", w.Commit(events.Entry{Seq: 1, Commit: &events.Commit{
		ID: "c1", Session: "s1", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", &events.SessionOpened{})},
	}}), nil)
	runtest.WantError(t, "blob", w.Blob([]byte("body")), nil)
	runtest.WantError(t, "close", w.Close(), nil)
	good := file.Bytes()
	reads := func(data []byte, limit int64) error {
		_, err := events.ReadArchive(bytes.NewReader(data), limit)
		return err
	}
	runtest.WantError(t, "the archive itself", reads(good, 1<<20), nil)
	add := func(class, name string, data []byte) {
		list = append(list, refusing("archive file", class, name, func() error { return reads(data, 1<<20) }))
	}
	for i := range 20 {
		cut := len(good) * i / 20
		add("replay", fmt.Sprint("cut_at_", cut), good[:cut])
		flipped := bytes.Clone(good)
		flipped[cut] ^= 0x20
		add("identity", fmt.Sprint("changed_at_", cut), flipped)
	}
	const magic = "LASHARC1"
	add("replay", "twice", append(bytes.Clone(good), good...))
	add("size", "longer", append(bytes.Clone(good), 0))
	add("size", "frame_bomb", []byte(magic+"h\xff\xff\xff\xff"))
	add("size", "commits_bomb", append(bytes.Clone(good[:len(good)/2]), 'c', 0xff, 0xff, 0xff, 0xff))
	add("depth", "header", append([]byte(magic+"h\x00\x01\x86\xa1"), harness.Nest(100_000, "\x91", "\xc0", "")...))
	list = append(list, refusing("archive file", "limits", "more_than_the_limit", func() error { return reads(good, 8) }))
	for _, id := range []events.SessionID{"../x", "a/b", "a.b", "*", ">", "", "a\x00", "\x1b[2J"} {
		list = append(list, refusing("archive file", "path traversal", fmt.Sprintf("session_%q", id), func() error {
			_, err := events.NewArchiveWriter(&bytes.Buffer{}, id, 1)
			return err
		}))
	}
	return list
}

// attacksOnTerminals sends texts with control sequences of terminals through each filter.
func attacksOnTerminals() (list []attack) {
	for name, bad := range map[string]string{
		"clear": "\x1b[2J", "title": "\x1b]0;x\x07", "clipboard": "\x1b]52;c;eA==\x07", "link": "\x1b]8;;http://x\x1b\\", "answerback": "\x05", "device": "\x1b[c", "bell": "\x07",
		"back": "\b\b\b", "return": "\r", "delete": "\x7f", "csi": "\u009b2J", "osc": "\u009d0;x\u009c", "override": "\u202e", "isolate": "\u2066", "mark": "\u200f",
		"zero_width": "\u200b", "joiner": "\u2060", "tag": "\U000e0041", "line": "\u2028", "paragraph": "\u2029", "soft": "\u00ad", "selector": "\U000e0100", "filler": "\u3164",
		"byte": "\xff", "c1_byte": "\x9b2J", "overlong": "\xc0\x9b", "surrogate": "\xed\xa0\x80", "nul": "\x00", "form_feed": "\f", "alternate": "\x1b[?1049h",
	} {
		for filter, filtered := range map[string]func(string) string{"text": show.Visible, "line": show.VisibleLine} {
			list = append(list, attack{"terminal", "escapes", name + "_" + filter, func() string {
				got := filtered("before" + bad + "after")
				if !utf8.ValidString(got) || !strings.HasPrefix(got, `before\`) || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
					return fmt.Sprintf("got %q, want it visible", got)
				}
				return ""
			}})
		}
	}
	return list
}
