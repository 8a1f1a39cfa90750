package sandbox

import (
	"reflect"
	"strings"
	"testing"
)

// TestShow shows an attachment of a tool's result and one of the conversation, also one that a variable kept, and passes one to a tool.
func TestShow(t *testing.T) {
	t.Parallel()
	d := newDesk()
	first := runProcess(t, d, Limits{}, Request{Code: "r = with_attachments(add, a=1, b=2)\nprint(r[\"value\"], len(attachments()))\nshow(r[\"attachments\"][0], attachments()[1])\n" +
		"kept = attachments()[0]\nprint(echo(picture=kept))"})
	one, other := Attachment{MediaType: "image/png", Digest: "d1", Size: 3}, Attachment{MediaType: "image/png", URL: "https://x/y.png"}
	if !reflect.DeepEqual(first.Shown, []Attachment{one, other}) || first.Error != "" {
		t.Errorf("got %+v, error %q, want %+v and %+v", first.Shown, first.Error, one, other)
	}
	if want := "3 2\n{\"picture\": {\"digest\": \"d0\", \"media_type\": \"image/png\", \"size\": 2}}\n"; first.Output != want {
		t.Errorf("output: got %q, want %q", first.Output, want)
	}
	if d.asked != 1 {
		t.Errorf("the conversation was read %d times, want once", d.asked)
	}
	second := runProcess(t, d, Limits{}, Request{Code: "show(kept)", State: first.State})
	if want := []Attachment{{MediaType: "image/png", Digest: "d0", Size: 2}}; !reflect.DeepEqual(second.Shown, want) {
		t.Errorf("of a variable: got %+v, error %q, want %+v", second.Shown, second.Error, want)
	}
}

func TestShowRefuses(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"show()":         "show takes attachments",
		"show(\"x\")":    "not \"x\"",
		"show({})":       "show takes attachments",
		"show(a=1)":      "show takes attachments",
		"attachments(1)": "attachments takes nothing",
		"show({\"media_type\": \"image/png\", \"digest\": \"d\", \"size\": 1, \"more\": 1})":             "show takes attachments",
		"show({\"media_type\": \"image/png\", \"digest\": \"d\", \"url\": \"http://x\"})":                "show takes attachments",
		"for i in range(17):\n    show({\"media_type\": \"image/png\", \"digest\": \"d\", \"size\": 1})": "limit 16",
	} {
		if resp := runCode(t, newDesk(), Limits{}, Request{Code: code}); !strings.Contains(resp.Error, want) || len(resp.Shown) > maxShown {
			t.Errorf("%s: got error %q and %d shown, want %q", code, resp.Error, len(resp.Shown), want)
		}
	}
}
