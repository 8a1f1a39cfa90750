package wire_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// messages are all types of the protocol.
var messages = []any{
	wire.Registration{},
	wire.Registered{},
	wire.Manifest{},
	wire.Tool{},
	wire.Hook{},
	wire.Fragment{},
	wire.Sign{},
	wire.Question{},
	wire.Error{},
	wire.CallID{},
	wire.Call{},
	wire.Progress{},
	wire.Outcome{},
	wire.Attachment{},
	wire.Failure{},
	wire.Piece{},
	wire.Output{},
	wire.Cancel{},
	wire.Callback{},
	wire.CallbackAnswer{},
	wire.BodyPiece{},
	wire.Ask{},
	wire.Answer{},
	wire.Trace{},
	wire.TraceContext{},
	wire.HookCall{},
	wire.HookedCall{},
	wire.HookedResult{},
	wire.HookResult{},
	wire.Ending{},
	wire.Directive{},
	wire.Said{},
	wire.Fire{},
	wire.Fired{},
	wire.SessionStart{},
	wire.Placed{},
	wire.Idle{},
	wire.IdleAnswer{},
}

// field is a row of a table of the document, or a field of a type.
type field struct {
	name, kind string
	optional   bool
}

// TestProtocolDocument compares the tables of PROTOCOL.md with the types: names, order, types, and which are optional.
func TestProtocolDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?m)^#{2,3} `).Split(string(text), -1)
	for _, m := range messages {
		name := reflect.TypeOf(m).Name()
		i := slices.IndexFunc(sections, func(s string) bool { return strings.HasPrefix(s, name+"\n") })
		if i < 0 {
			t.Errorf("%s: has no section", name)
			continue
		}
		if got, want := documented(sections[i]), fieldsOf(reflect.TypeOf(m)); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
}

var fieldRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]+) \\|")

// documented has the rows of a section's first table.
func documented(section string) (list []field) {
	_, table, _ := strings.Cut(section, "| field | type | meaning |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range fieldRow.FindAllStringSubmatch(table, -1) {
		kind, optional := strings.CutSuffix(row[2], ", optional")
		list = append(list, field{row[1], kind, optional})
	}
	return list
}

func fieldsOf(t reflect.Type) (list []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			list = append(list, fieldsOf(f.Type)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, field{name, kindOf(f, name), options == "omitempty"})
	}
	return list
}

var tokens = []string{"name", "instance", "term", "session", "parent", "tool", "id", "hook"}

// kindOf is how the document names a field's type.
func kindOf(f reflect.StructField, name string) string {
	t := f.Type
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "JSON"
	case t == reflect.TypeFor[[]byte]():
		return "bytes"
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Struct:
		return linked(t)
	case t == reflect.TypeFor[[]json.RawMessage]():
		return "array of JSON"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return "array of " + linked(t.Elem())
	case t.Kind() == reflect.Slice:
		return "array of text"
	case t.Kind() == reflect.Map:
		return "map of text to text"
	case t.Kind() == reflect.Bool:
		return "bool"
	case t.Kind() == reflect.String && slices.Contains(tokens, name) && f.Tag.Get("json") != "name,omitempty":
		return "token"
	case t.Kind() == reflect.String:
		return "text"
	}
	return "int"
}

func linked(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return "[" + t.Name() + "](#" + strings.ToLower(t.Name()) + ")"
}

// TestProtocolSubjects has the document and the package documentation name the same subjects, senders and messages.
func TestProtocolSubjects(t *testing.T) {
	t.Parallel()
	document, code := subjectsOf(t, "PROTOCOL.md", "(?m)^\\| `(lash\\.[^`]+)` \\| (\\w+) "), subjectsOf(t, "doc.go", `(?m)^//\t(lash\.\S+) +(\w+) `)
	if !slices.Equal(document, code) {
		t.Errorf("subjects:\n got %v\nwant %v", document, code)
	}
	if len(code) < 10 {
		t.Errorf("subjects: got %d, want those of the table", len(code))
	}
}

func subjectsOf(t *testing.T, file, row string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(row).FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1]+" "+m[2])
	}
	return list
}

// TestProtocolLimits looks for each limit in the document.
func TestProtocolLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, limit := range map[string]int64{
		"MaxTools": wire.MaxTools, "MaxMachine": wire.MaxMachine, "MaxSignBytes": wire.MaxSignBytes, "MaxReplies": wire.MaxReplies, "MaxHooks": wire.MaxHooks, "MaxFragments": wire.MaxFragments, "MaxFragmentText": wire.MaxFragmentText,
		"MaxManifestBytes": wire.MaxManifestBytes, "MaxSchemaBytes": wire.MaxSchemaBytes, "MaxVersionBytes": wire.MaxVersionBytes,
		"MaxDescription": wire.MaxDescription, "MaxInlineBytes": wire.MaxInlineBytes, "MaxOutcomeBytes": wire.MaxOutcomeBytes,
		"MaxAttachment": wire.MaxAttachment, "MaxAttachments": wire.MaxAttachments, "MaxOutputBytes": wire.MaxOutputBytes, "MaxBodyBytes": wire.MaxBodyBytes, "MaxBodyPiece": wire.MaxBodyPiece,
		"OutputsPerSecond": wire.OutputsPerSecond, "MaxCallbackBytes": wire.MaxCallbackBytes, "MaxCallbackAnswer": wire.MaxCallbackAnswer, "MaxCallbacks": wire.MaxCallbacks,
		"MaxValues": wire.MaxValues, "MaxCount": wire.MaxCount, "MaxOutputOffset": wire.MaxOutputOffset, "MaxJSONDepth": events.MaxJSONDepth,
		"MaxQuestion": wire.MaxQuestion, "MaxAskDetails": wire.MaxAskDetails,
		"MaxArgsBytes": wire.MaxArgsBytes, "MaxFailureMessage": wire.MaxFailureMessage, "HookTimeout": wire.HookTimeout.Milliseconds(),
		"MaxHookTimeout": wire.MaxHookTimeout.Milliseconds(), "MaxHookCall": wire.MaxHookCall, "MaxHookAnswer": wire.MaxHookAnswer,
		"MaxDirectives": wire.MaxDirectives, "MaxFireBytes": wire.MaxFireBytes, "MaxFires": wire.MaxFires, "MaxPromptText": wire.MaxPromptText,
		"RateBurst": wire.RateBurst, "RegistrationsPerSecond": wire.RegistrationsPerSecond, "FiresPerSecond": wire.FiresPerSecond,
		"CallbacksPerSecond": wire.CallbacksPerSecond, "PluginCallbacks": wire.PluginCallbacks, "MaxOutputsPerSecond": wire.MaxOutputsPerSecond,
		"OutputBytesPerSecond": wire.OutputBytesPerSecond, "AnswersPerSecond": wire.AnswersPerSecond, "AnswerBytesPerSecond": wire.AnswerBytesPerSecond, "PluginOutputs": wire.PluginOutputs, "PluginOutputBytes": wire.PluginOutputBytes,
	} {
		if !regexp.MustCompile(`\b` + strconv.FormatInt(limit, 10) + `\b`).Match(text) {
			t.Errorf("%s: the document does not have %d", name, limit)
		}
	}
	for name, period := range map[string]int64{
		"SignEvery": wire.SignEvery.Milliseconds(), "Lease": wire.Lease.Milliseconds(), "CallbackRepeat": wire.CallbackRepeat.Milliseconds(),
	} {
		if spaced := strconv.FormatInt(period/1000, 10) + " 000 ms"; !strings.Contains(string(text), spaced) {
			t.Errorf("%s: the document does not have %q", name, spaced)
		}
	}
}
