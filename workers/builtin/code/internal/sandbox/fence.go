package sandbox

import "strings"

// Fence finds the first complete fenced block of code in a text: one whose info string is starlark, python, py or
// lash, or empty. Blocks
// of other languages are text. before is the text before the block, code its lines with LF as line end, lang the
// first word of the
// info string in lower case.
//
// Fences are those of Markdown: a line of at least three backticks or tildes, indented by at most three spaces,
// closed by a line of at least
// as many of the same and nothing else. A line of three backticks inside a string of the code closes a fence of
// three. Code with such a
// line needs a fence of four, or of tildes.
func Fence(text string) (before, code, lang string, ok bool) {
	f, ok := findFence(text, false)
	if !ok {
		return "", "", "", false
	}
	return text[:f.start], f.code, f.lang, true
}

// Closed reports whether text has a complete block that further text cannot change: its closing line has a line end.
// [Fence] then finds the
// same block in every continuation, so a stream may be cut here.
func Closed(text string) bool {
	_, ok := findFence(text, true)
	return ok
}

type fence struct {
	start      int
	code, lang string
}

func findFence(text string, ended bool) (fence, bool) {
	var (
		f      fence
		opener string // the characters of the open fence; "" outside of blocks
		indent int
		wanted bool
		code   strings.Builder
	)
	for at := 0; at < len(text); {
		line, next, complete := text[at:], len(text), false
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line, next, complete = line[:i], at+i+1, true
		}
		line = strings.TrimSuffix(line, "\r")
		run, rest, spaces := fenceRun(line)
		switch {
		case opener == "" && run != "" && complete && (run[0] == '~' || !strings.Contains(rest, "`")):
			opener, indent = run, spaces
			f = fence{start: at}
			if words := strings.Fields(rest); len(words) > 0 {
				f.lang = strings.ToLower(words[0])
			}
			wanted = f.lang == "" || f.lang == "starlark" || f.lang == "python" || f.lang == "py" || f.lang == "lash"
			code.Reset()
		case opener == "":
		case run != "" && run[0] == opener[0] && len(run) >= len(opener) && strings.Trim(rest, " \t") == "":
			if wanted {
				f.code = code.String()
				return f, complete || !ended
			}
			opener = ""
		case wanted:
			for i := 0; i < indent && strings.HasPrefix(line, " "); i++ {
				line = line[1:]
			}
			code.WriteString(line)
			code.WriteByte('\n')
		}
		at = next
	}
	return fence{}, false
}

// fenceRun splits a line into the characters of a fence and what follows.
func fenceRun(line string) (run, rest string, indent int) {
	for indent < 3 && strings.HasPrefix(line[indent:], " ") {
		indent++
	}
	line = line[indent:]
	n := 0
	for n < len(line) && line[n] == line[0] && (line[0] == '`' || line[0] == '~') {
		n++
	}
	if n < 3 {
		return "", line, indent
	}
	return line[:n], line[n:], indent
}
