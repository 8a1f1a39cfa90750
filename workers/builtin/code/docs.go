package code

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	schemas "github.com/lash-go/lash/session/schema"
)

const language = `You act by writing programs. Write one fenced block per reply:

` + "```starlark" + `
found = search(query="event log")
print(len(found), found[0])
` + "```" + `

The reply ends where the block closes; the program runs, and what it prints comes back as a message that begins with [output]. Text before the block is for the user.

The language is Starlark, a small Python: def, lambda, comprehensions, if, for and while (also outside of functions), "{}".format(x). It has no import, class, try, with, f-strings, recursion or ** operator. json and math are there.
- Tools are functions with named arguments. Their values are decoded JSON, or text.
- A tool that fails ends the program with an error. r = attempt(tool, name=value) gives r.ok, r.value and r.error instead.
- gather([call(tool, name=value), ...]) runs calls at the same time and gives their values in order.
- r = with_attachments(tool, name=value) gives r["value"], and r["attachments"], the pictures and files of the result; attachments() gives those of the conversation. Pass one to a tool as an argument; show(one, other) shows them to you.
- h = start(tool, name=value) begins a tool and goes on; wait(h) gives its value, in this program or a later one.
- tool("name", ...) calls a tool by name. message("text") tells the user something while the program runs.
- time_now() gives the time at which the program began, in seconds since 1970.
- Global variables and functions stay for your next programs; print only what you need to read.
- finish(value) ends your turn with a value.
- continue_as("what is left to do", {"name": value}) goes on with an empty conversation, the task and these variables.`

// maxDocs limits the descriptions of the tools in a prompt, in bytes.
const maxDocs = 48 << 10

// contributions are the execution section of the prompt.
func contributions(tools []events.ToolEntry, o Options) []events.Contribution {
	list := []events.Contribution{{Slot: events.SlotExecution, Title: "Programs", Content: language}}
	if docs := toolDocs(tools); docs != "" {
		list = append(list, events.Contribution{Slot: events.SlotExecution, Title: "Tools", Priority: 1, Content: docs})
	}
	if end := ending(o); end != "" {
		list = append(list, events.Contribution{Slot: events.SlotExecution, Title: "Ending the turn", Priority: 2, Content: end})
	}
	return list
}

func ending(o Options) string {
	var lines []string
	if o.Termination == FinishRequired {
		lines = append(lines, "Only a program that calls finish(value) ends your turn. A reply without a block does not.")
	}
	if o.FinishSchema != nil {
		schema, err := json.Marshal(o.FinishSchema)
		if err == nil {
			lines = append(lines, "The value of finish must fit this JSON schema: "+string(schema))
		}
	}
	return strings.Join(lines, "\n")
}

// toolDocs describes the showcased tools; those above the limit by name only.
func toolDocs(tools []events.ToolEntry) string {
	var b strings.Builder
	var names []string
	for i := range tools {
		t := &tools[i]
		if t.Effective() != events.AvailShowcased {
			continue
		}
		if doc := toolDoc(t); b.Len()+len(doc) <= maxDocs {
			b.WriteString(doc)
			continue
		}
		names = append(names, t.Name)
	}
	if len(names) > 0 {
		more := strings.Join(names, ", ")
		if len(more) > maxDocs/4 {
			more = more[:maxDocs/4] + " ..."
		}
		b.WriteString("Not described here: " + strings.ToValidUTF8(more, "") + "\n")
	}
	return b.String()
}

func toolDoc(t *events.ToolEntry) string {
	schema := new(jsonschema.Schema)
	if text := t.Look().Schema; len(text) > 0 {
		if read, err := schemas.Parse("schema", text); err == nil {
			schema = read
		}
	}
	names := slices.SortedFunc(maps.Keys(schema.Properties), func(a, b string) int {
		x, y := slices.Index(schema.Required, a), slices.Index(schema.Required, b)
		switch {
		case x >= 0 && y >= 0:
			return cmp.Compare(x, y)
		case x >= 0 || y >= 0:
			return cmp.Compare(y, x) // required ones first
		}
		return cmp.Compare(a, b)
	})
	var params, lines []string
	for _, name := range names {
		p := schema.Properties[name]
		param := name + ": " + typeName(p, 0)
		if !slices.Contains(schema.Required, name) {
			param += " = " + defaultOf(p)
		}
		params = append(params, param)
		if p.Description != "" {
			lines = append(lines, "    "+name+": "+oneLine(p.Description)+"\n")
		}
	}
	call := t.Name + "("
	if !isName(t.Name) {
		call = fmt.Sprintf("tool(%q, ", t.Name)
	}
	doc := call + strings.Join(params, ", ") + ")\n"
	if t.Description != "" {
		doc += "    " + oneLine(t.Description) + "\n"
	}
	return doc + strings.Join(lines, "")
}

func defaultOf(p *jsonschema.Schema) string {
	if len(p.Default) > 0 && len(p.Default) <= 60 {
		return string(p.Default)
	}
	return "None"
}

// typeName is the type of a schema in the notation of Python.
func typeName(s *jsonschema.Schema, depth int) string {
	switch {
	case s == nil || depth > 3:
		return "any"
	case len(s.Enum) > 0 && len(s.Enum) <= 12:
		var values []string
		for _, v := range s.Enum {
			data, err := json.Marshal(v)
			if err == nil {
				values = append(values, string(data))
			}
		}
		return strings.Join(values, " | ")
	case len(s.AnyOf)+len(s.OneOf) > 0:
		var options []string
		for _, o := range append(slices.Clip(s.AnyOf), s.OneOf...) {
			options = append(options, typeName(o, depth+1))
		}
		return strings.Join(slices.Compact(options), " | ")
	}
	kind := s.Type
	for _, k := range s.Types {
		if k != "null" {
			kind = k
		}
	}
	switch kind {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	case "array":
		return "list[" + typeName(s.Items, depth+1) + "]"
	case "object":
		return objectName(s, depth)
	}
	return "any"
}

func objectName(s *jsonschema.Schema, depth int) string {
	if len(s.Properties) == 0 || len(s.Properties) > 12 {
		return "dict"
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		optional := ""
		if !slices.Contains(s.Required, name) {
			optional = "?"
		}
		fields = append(fields, fmt.Sprintf("%q%s: %s", name, optional, typeName(s.Properties[name], depth+1)))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func isName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
