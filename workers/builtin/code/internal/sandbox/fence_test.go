package sandbox

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

func TestFence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, before, code, lang string
		ok, closed               bool
	}{
		"plain":       {"hi\n```starlark\nx = 1\n```\nbye", "hi\n", "x = 1\n", "starlark", true, true},
		"atend":       {"```\nx\n```", "", "x\n", "", true, false},
		"unclosed":    {"```python\nx\n", "", "", "", false, false},
		"other":       {"```json\n{}\n```\n```lash\ny\n```\n", "```json\n{}\n```\n", "y\n", "lash", true, true},
		"longer":      {"````py\n```\nx\n```\n````\n", "", "```\nx\n```\n", "py", true, true},
		"longerclose": {"```py\nx\n`````\n", "", "x\n", "py", true, true},
		"tildes":      {"~~~ Python title\n```\n~~~\n", "", "```\n", "python", true, true},
		"mixed":       {"```\nx\n~~~\n```\n", "", "x\n~~~\n", "", true, true},
		"crlf":        {"a\r\n```lash\r\nx\r\ny\r\n```\r\n", "a\r\n", "x\ny\n", "lash", true, true},
		"indented":    {"  ```\n  if x:\n      y\n z\n  ```\n", "", "if x:\n    y\nz\n", "", true, true},
		"fourspaces":  {"    ```\nx\n    ```\n", "", "", "", false, false},
		"inline":      {"use ```x``` and\n```a`b\nx\n```\n", "", "", "", false, false},
		"string":      {"```\nx = '''\n```\n'''\n```\n", "", "x = '''\n", "", true, true},
		"textafter":   {"```\nx\n``` y\n```\n", "", "x\n``` y\n", "", true, true},
		"empty":       {"```\n```\n", "", "", "", true, true},
		"first":       {"```\na\n```\n```\nb\n```\n", "", "a\n", "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, code, lang, ok := Fence(c.text)
			if before != c.before || code != c.code || lang != c.lang || ok != c.ok {
				t.Errorf("got %q %q %q %v, want %q %q %q %v", before, code, lang, ok, c.before, c.code, c.lang, c.ok)
			}
			runtest.Equal(t, "closed", Closed(c.text), c.closed)
		})
	}
}

func FuzzFence(f *testing.F) {
	f.Add("a\n```lash\nx\n```\n", "```\n")
	f.Add("~~~\r\nx\r\n~~~\r\n", "")
	f.Fuzz(func(t *testing.T, text, more string) {
		before, code, lang, ok := Fence(text)
		if !strings.HasPrefix(text, before) {
			t.Errorf("before: got %q of %q", before, text)
		}
		if !Closed(text) {
			return
		}
		before2, code2, lang2, ok2 := Fence(text + more)
		if before != before2 || code != code2 || lang != lang2 || !ok || !ok2 {
			t.Errorf("closed in %q, but %q adds to it", text, more)
		}
	})
}
