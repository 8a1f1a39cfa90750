package exchange

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
)

// page is the report's page. It has no script, and its policy forbids all that is not in it. The contextual escaping of
// html/template makes text of everything from the session.
//
//go:embed page.html
var page string

// HTML writes the report of [Markdown] as one page, which needs nothing else.
func HTML(w io.Writer, d *Document) (*Losses, error) {
	r := newReport(d)
	t, err := template.New("page").Parse(page)
	if err != nil {
		return r.lost, err
	}
	type shownBlock struct {
		Class, Title, Text string
		Notes              []string
		Body, Turn         bool
	}
	data := struct {
		Session string
		Facts   [][2]string
		Blocks  []shownBlock
	}{Session: string(d.Session)}
	for _, f := range r.facts {
		data.Facts = append(data.Facts, [2]string{f[0], visible(f[1])})
	}
	for i := range r.blocks {
		k := &r.blocks[i]
		one := shownBlock{Class: k.class, Title: visible(k.title), Text: visible(k.text), Body: k.body, Turn: k.class == "turn"}
		for _, note := range k.notes {
			one.Notes = append(one.Notes, visible(note))
		}
		data.Blocks = append(data.Blocks, one)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return r.lost, err
	}
	_, err = w.Write(b.Bytes())
	return r.lost, err
}
