package wire_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/lash-go/lash/session/plugin/wire"
)

var (
	interfaceOf = regexp.MustCompile(`(?s)export interface (\w+)(?: extends (\w+))? \{\n(.*?)\n\}`)
	fieldOf     = regexp.MustCompile(`(?m)^  (\w+)(\??): `)
)

// TestTypeScriptTypes compares the messages of the SDK of TypeScript with the types: names, order, and which are optional.
func TestTypeScriptTypes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "sdk", "typescript", "wire.d.ts"))
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string][]field)
	for _, m := range interfaceOf.FindAllStringSubmatch(string(text), -1) {
		fields := slices.Clone(declared[m[2]]) // of the interface that it extends
		for _, f := range fieldOf.FindAllStringSubmatch(m[3], -1) {
			fields = append(fields, field{name: f[1], optional: f[2] != ""})
		}
		declared[m[1]] = fields
	}
	for _, m := range messages {
		want := fieldsOf(reflect.TypeOf(m))
		for i := range want {
			want[i].kind = ""
		}
		if name := reflect.TypeOf(m).Name(); !slices.Equal(declared[name], want) {
			t.Errorf("%s:\n got %v\nwant %v", name, declared[name], want)
		}
	}
}

// TestTypeScriptLimits compares the limits of the SDK of TypeScript with the constants, in both directions.
func TestTypeScriptLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "sdk", "typescript", "lib", "limits.js"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, m := range regexp.MustCompile(`(?m)^export const (\w+) = (\d+);$`).FindAllStringSubmatch(string(text), -1) {
		got[m[1]], _ = strconv.ParseInt(m[2], 10, 64)
	}
	want := map[string]int64{
		"maxInlineBytes": wire.MaxInlineBytes, "maxOutcomeBytes": wire.MaxOutcomeBytes, "maxAttachment": wire.MaxAttachment, "maxAttachments": wire.MaxAttachments,
		"maxAttachmentCount": wire.MaxAttachmentCount,
		"maxFailureMessage":  wire.MaxFailureMessage, "maxOutputBytes": wire.MaxOutputBytes, "outputsPerSecond": wire.OutputsPerSecond,
		"maxCallbackBytes": wire.MaxCallbackBytes, "maxCallbacks": wire.MaxCallbacks, "callbackRepeatMs": wire.CallbackRepeat.Milliseconds(),
		"maxBodyBytes": wire.MaxBodyBytes, "maxBodyPiece": wire.MaxBodyPiece,
		"registerRepeatMs": wire.RegisterRepeat.Milliseconds(), "signEveryMs": wire.SignEvery.Milliseconds(), "maxMachine": wire.MaxMachine, "maxSignBytes": wire.MaxSignBytes, "maxReplies": wire.MaxReplies,
		"maxInstanceName": wire.MaxInstanceName, "leaveMs": wire.LeaveWait.Milliseconds(), "keepMs": wire.KeepOutcome.Milliseconds(),
		"maxKeptBytes": wire.MaxKeptBytes, "maxKnownCalls": wire.MaxKnownCalls, "maxSessions": wire.MaxSessions,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
