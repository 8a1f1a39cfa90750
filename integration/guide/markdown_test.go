package guide

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A block is a fenced block of a Markdown file. Its info string is its type:
//
//	sh          a command in a terminal, which exits with 0
//	sh stays    a command that runs until the next chapter, in a terminal of its own; later blocks use another one
//	text        output of the block before; … stands for any text, alone on a line for any lines
//	go FILE     a part of this file of the repository
//	LANG FILE   a file that the user writes, for the blocks that follow
//	mermaid     a diagram, which TestDiagram reads
//	diagram     a diagram that no test reads
type block struct {
	chapter int // counts headings of the first two levels
	line    int // in the file
	info    []string
	text    string
}

func (b block) kind() string {
	if len(b.info) == 0 {
		return ""
	}
	return b.info[0]
}

// blocks are the blocks of a Markdown file, in order.
func blocks(t *testing.T, file string) (list []block) {
	t.Helper()
	data, err := os.ReadFile(file) //nolint:gosec // a file of this repository
	if err == nil {
		list, err = parse(string(data))
	}
	if err != nil {
		t.Fatalf("%s:%v", file, err)
	}
	return list
}

// otherBlock is a line of a form of block that parse does not read, so that its block would not be run: another fence, a quoted one, HTML, or an
// indented block, which begins after an empty line or the start of the file.
var otherBlock = regexp.MustCompile("(?i)^[ \t>*+-]*(~~~|````)|^ *[>*+-][ \t>*+-]*```|^ *\\d+[.)] *```|^\t* *<(pre|code|script)\\b")

func parse(data string) (list []block, err error) {
	const fence = "```"
	var in *block
	chapter, indent, before := 0, "", ""
	lists := false
	for i, line := range strings.Split(data, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case in == nil && otherBlock.MatchString(line):
			return nil, fmt.Errorf("%d: no block is run that begins as %q", i+1, line)
		case in == nil && !lists && strings.TrimSpace(before) == "" && strings.HasPrefix(strings.ReplaceAll(line, "\t", "    "), "    "):
			return nil, fmt.Errorf("%d: no indented block is run: %q", i+1, line)
		case in == nil && strings.HasPrefix(trimmed, fence):
			indent = line[:len(line)-len(trimmed)] // indentation of its list
			in = &block{chapter: chapter, line: i + 1, info: strings.Fields(strings.TrimPrefix(trimmed, fence))}
		case in != nil && trimmed == fence:
			list = append(list, *in)
			in = nil
		case in != nil:
			in.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "## "):
			chapter++
		}
		if in == nil && line != "" && line[0] != ' ' && line[0] != '\t' {
			lists = listItem.MatchString(line)
		}
		before = line
	}
	if in != nil {
		return nil, fmt.Errorf("%d: the block does not end", in.line)
	}
	return list, nil
}

// listItem is the first line of an item. The lines of its paragraphs are indented.
var listItem = regexp.MustCompile(`^([-*+]|\d+[.)]) `)

// TestNoBlockIsSkipped has blocks in forms that would not be run: each is an error. So is a shown output that no command prints, and a block of
// no known kind.
func TestNoBlockIsSkipped(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"~~~sh\nfalse\n~~~\n", "````sh\nfalse\n````\n", "> ```sh\n> false\n> ```\n", "- ```sh\n  false\n  ```\n", "text\n\n    false\n", "\tfalse\n",
		"1. ```sh\n   false\n   ```\n", "<pre>\nfalse\n</pre>\n", "```sh\nfalse\n",
	} {
		if list, err := parse(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, list)
		}
	}
	list, err := parse("- item:\n\n  ```sh\n  true\n  ```\n\n    more of it\n\ntext\n\n```text\nx\n```\n```bash\nfalse\n```\n```\nfalse\n```\n```sh once\nfalse\n```\n")
	if err != nil || len(list) != 5 || list[0].text != "true\n" {
		t.Fatalf("got %+v, %v, want five blocks", list, err)
	}
	u := &user{t: t, file: "x.md", dir: t.TempDir(), paths: strings.NewReplacer(), at: &terminal{}}
	for _, b := range append(list[1:], block{info: []string{"mermaid"}}, block{info: []string{"json"}}) {
		if err := u.do(b, false, ""); err == nil {
			t.Errorf("%+v: got no error", b)
		}
	}
}

// matches compares output with a text block. more: the output may continue after the block.
func matches(want, got string, more bool) error {
	wantLines, gotLines := lines(want), lines(got)
	rest, err := match(wantLines, gotLines)
	if err == nil && len(rest) > 0 && !more {
		err = fmt.Errorf("nothing is shown of %q", rest[0])
	}
	return err
}

func match(wantLines, gotLines []string) (rest []string, err error) {
	for i, want := range wantLines {
		if want == "…" {
			err = fmt.Errorf("no lines match %q", wantLines[i+1:])
			for from := len(gotLines); from >= 0; from-- {
				if rest, failed := match(wantLines[i+1:], gotLines[from:]); failed == nil {
					return rest, nil
				}
			}
			return nil, err
		}
		if len(gotLines) == 0 {
			return nil, fmt.Errorf("%q is shown, and not printed", want)
		}
		if !matchLine(strings.Split(want, "…"), gotLines[0]) {
			return nil, fmt.Errorf("%q is shown, %q is printed", want, gotLines[0])
		}
		gotLines = gotLines[1:]
	}
	return gotLines, nil
}

func matchLine(parts []string, got string) bool {
	last := len(parts) - 1
	if last == 0 {
		return got == parts[0]
	}
	rest, found := strings.CutPrefix(got, parts[0])
	for _, part := range parts[1:last] {
		if found {
			_, rest, found = strings.Cut(rest, part)
		}
	}
	return found && strings.HasSuffix(rest, parts[last])
}

// lines are the lines of a text, without spaces at line ends and without empty lines at the end.
func lines(text string) (list []string) {
	for line := range strings.Lines(strings.TrimRight(text, " \n")) {
		list = append(list, strings.TrimRight(line, " \n"))
	}
	return list
}

// TestDifferentOutputIsRefused: the comparison refuses outputs that differ.
func TestDifferentOutputIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got string
		more, ok  bool
	}{
		{"a\nb\n", "a\nb", false, true},
		{"a\n", "a\nb\n", false, false},
		{"a\n", "a\nb\n", true, true},
		{"a\nb\n", "a\n", true, false},
		{"a … c", "a b c", false, true},
		{"a … c", "a b d", false, false},
		{"a … b … c", "a x b y c", false, true},
		{"…\nb", "x\ny\nb", false, true},
		{"…\nb", "x\ny\nc", false, false},
		{"a\n…", "a", false, true},
		{"a\n…", "a\nb\nc", false, true},
		{"…\nb\n…", "b\nc", false, true},
		{"", "", false, true},
		{"", "a", false, false},
	} {
		if err := matches(c.want, c.got, c.more); (err == nil) != c.ok {
			t.Errorf("%q shown of %q, more %t: got %v, want ok %t", c.want, c.got, c.more, err, c.ok)
		}
	}
}
