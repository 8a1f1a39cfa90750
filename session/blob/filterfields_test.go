package blob_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/blob"
)

const secret = "sk-abc1"

// fill gives every field of plain text the secret, and every list one element. Fields of named types of text are ids and other
// names of the format.
func fill(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the types of events have no others with texts
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() {
			v.SetString(secret)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(secret))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[events.BlobRef]() {
			return // a digest
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	}
}

// left are the fields that have the secret, as Type.Field.
func left(v reflect.Value, name string, add func(string)) {
	switch v.Kind() { //nolint:exhaustive // as in fill
	case reflect.Pointer:
		left(v.Elem(), name, add)
	case reflect.String:
		if strings.Contains(v.String(), secret) {
			add(name)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if strings.Contains(string(v.Bytes()), secret) {
				add(name)
			}
			return
		}
		for i := range v.Len() {
			left(v.Index(i), name, add)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			left(v.MapIndex(key), name, add)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			left(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, add)
		}
	}
}

// unfiltered are the fields of plain text that a filter leaves as they are, and why.
var unfiltered = map[string]string{
	"signatures, digests and keys of requests": `
		AuditHeadSigned.Certificate AuditHeadSigned.Edge AuditHeadSigned.Key AuditHeadSigned.Leaves
		AuditHeadSigned.Signature GraphAppended.Key ModelCompleted.Key ModelCompleted.Request
		PromptRef.Digest ToolNestedCalled.Digest ToolNestedReturned.Digest
		TurnCancelRequested.Request
	`,
	"callers, as the door authenticated them": `
		BodyStored.By InputInjected.Caller SessionFirstInputTaken.By SessionGranted.By SessionGranted.To
		SessionOpened.Owner TaskRegistered.Callers ToolApprovalGiven.By ToolResolved.By ToolResultScheduled.By
		TurnRequested.Callers TurnScheduled.Callers
	`,
	"states of plugins and of code": `
		Artifact.Data Artifact.Name FrameConfigured.Options FrameStateSaved.State PluginStateSaved.Plugin
		PluginStateSaved.State PluginStateSaved.Version
	`,
	"options of plugins and protocols, which they read": `SessionOpened.Options TurnInput.Options TurnInput.Plugins`,
	"commands, which run as they are":                   `MonitorSpec.Command MonitorSpec.Cwd MonitorSpec.Env MonitorSpec.Place`,
	"tools as they are offered, and the form and end of replies": `
		Contribution.Tools OutputForm.Name OutputForm.Schema Sampling.Stop ToolAccess.Hidden ToolAccess.Tools
		ToolEntry.Aliases ToolEntry.Description ToolEntry.Name ToolEntry.Namespace ToolEntry.Source
	`,
	"names, codes and labels": `
		Config.Effort Config.Environment Config.Model Config.Protocol Config.Provider Decision.Code Decision.Name Decision.Plugin
		Extension.Type FailedTry.Code FailedTry.Error Fallback.Model Fallback.Provider FallbackTo.Model
		FallbackTo.Provider FrameOpened.Reason Generation.Effort HookRan.Failed Issue.Code Issue.Kind Message.Origin
		ModelCompleted.Model ModelCompleted.Provider ModelCompleted.Source ModelFailed.Code ModelFailed.Error
		ModelFailed.Model ModelFailed.Provider ModelInterrupted.Model ModelInterrupted.Provider ModelReplied.Model
		ModelReplied.Provider MonitorSpec.Environment NewNode.Type Part.MediaType Part.Tool SessionOpened.Labels SessionOpened.Usage
		Subagent.Capability TaskHidden.Label TaskRegistered.Producer TaskRegistered.Runner ToolApprovalAsked.Plugin
		ToolApprovalAsked.Tool ToolCalled.Holders ToolCalled.Terms ToolNestedCalled.Tool ToolNestedReturned.Tool ToolResult.Class
		ToolResult.Code ToolSourcesApplied.Sources TraceParent.Parent TraceParent.State TurnCompleted.Tool
		UsageCharged.Source UsageEntry.Model
	`,
}

// TestFilterOfEveryField sets every text of every kind of event to a secret. After the filter only the listed fields have it: a
// new field of text is filtered, or is listed here with its reason.
func TestFilterOfEveryField(t *testing.T) {
	t.Parallel()
	filter, err := blob.NewFilter("sk-[a-z0-9]+")
	runtest.NoError(t, err)
	var got []string
	for _, kind := range events.Kinds() {
		p := reflect.New(reflect.TypeOf(eventstest.Payload(kind).Example(1)).Elem())
		fill(p.Elem())
		out, err := blob.Spill(t.Context(), filter.Store(memStore{}), p.Interface().(events.Payload))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		left(reflect.ValueOf(out), "", func(name string) {
			if !slices.Contains(got, name) {
				got = append(got, name)
			}
		})
	}
	slices.Sort(got)
	var want []string
	for _, names := range unfiltered {
		want = append(want, strings.Fields(names)...)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("fields with the secret: got\n%s\nwant\n%s", strings.Join(got, " "), strings.Join(want, " "))
	}
}
