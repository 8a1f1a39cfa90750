package sandbox

import (
	"strings"
)

// hintSyntax is the Starlark to write instead of Python that it does not have.
func hintSyntax(line string) string {
	first, _, _ := strings.Cut(strings.TrimRight(line, ":"), " ")
	switch strings.TrimSuffix(first, ":") {
	case "import", "from":
		return "\nthere are no imports; json and math are already there"
	case "try", "except", "finally":
		return "\nthere is no try; write r = attempt(tool, name=value) and look at r.ok, r.value, r.error"
	case "class":
		return "\nthere are no classes; use dicts and functions"
	case "raise", "assert":
		return "\nwrite fail(\"..\") to end with an error"
	case "with", "async", "await", "yield", "nonlocal", "global", "del":
		return "\n" + first + " is not part of this language"
	}
	switch {
	case hasFString(line):
		return "\nthere are no f-strings; write \"{}\".format(x) or \"%s\" % x"
	case strings.Contains(line, " is "):
		return "\nthere is no is; write == or !="
	case strings.Contains(line, "**"):
		return "\nthere is no ** operator; use math.pow(x, y)"
	case strings.Contains(line, ":="):
		return "\nthere is no :=; assign on a line of its own"
	}
	return ""
}

func hintRuntime(message string) string {
	switch {
	case strings.Contains(message, "called recursively"):
		return "; recursion is off, use a loop with a list of what is left to do"
	case strings.HasPrefix(message, "undefined: "):
		return "; assign it first, or call tool(\"name\", ..) if it is a tool"
	case strings.Contains(message, "unknown binary op: string + "), strings.Contains(message, "+ string"):
		return "; use str(..) first"
	case strings.HasPrefix(message, "dict has no ."), strings.HasSuffix(message, "field of dict"):
		return "; for a key write [\"name\"]"
	case strings.HasSuffix(message, "string value is not iterable"):
		return "; use .elems(), .codepoints() or .splitlines()"
	}
	return ""
}

// hasFString finds f" or f' that does not end a longer word.
func hasFString(line string) bool {
	for i := range len(line) - 1 {
		if line[i] == 'f' && (line[i+1] == '"' || line[i+1] == '\'') && (i == 0 || strings.ContainsRune(" =([{,:+%", rune(line[i-1]))) {
			return true
		}
	}
	return false
}
