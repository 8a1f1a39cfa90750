package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// partFunc reads a part of the recorded type. For an unknown type it returns an attachment without fields, to which
// the caller adds the JSON.
type partFunc func(kind string, o object) (events.Part, error)

// content reads the content of a message: null, a string or an array of parts. An empty string is no part; an empty
// text part is a part.
func content(o object, read partFunc) ([]events.Part, error) {
	if kindOf(o["content"]) == '"' {
		text, err := o.must("content")
		if err != nil || text == "" {
			return nil, err
		}
		return []events.Part{textPart(text)}, nil
	}
	all, err := o.list("content")
	if err != nil {
		return nil, errors.New("content: neither a string nor an array")
	}
	var parts []events.Part
	for i, raw := range all {
		p, err := readPart(raw, read)
		if err != nil {
			return nil, fmt.Errorf("content[%d]: %w", i, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func readPart(raw json.RawMessage, read partFunc) (events.Part, error) {
	o, err := parseObject(raw)
	if err != nil {
		return events.Part{}, err
	}
	kind, err := o.must("type")
	if err != nil {
		return events.Part{}, err
	}
	p, err := read(kind, o)
	if err != nil {
		return events.Part{}, fmt.Errorf("%s: %w", kind, err)
	}
	if p.Kind == "" {
		p = events.Part{Kind: events.PartAttachment, Meta: compact(raw)}
	}
	return p, nil
}

func textPart(text string) events.Part { return events.Part{Kind: events.PartText, Text: text} }

// textAt reads a text part whose text is at key.
func textAt(o object, key string) (events.Part, error) {
	text, err := o.must(key)
	return textPart(text), err
}

// bytesOf returns the bytes of s, nil for none, as decoding an omitted field does.
func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// splitResult separates the text parts of a tool's result from the others.
func splitResult(parts []events.Part) (text string, attachments []events.Part) {
	var texts []string
	for _, p := range parts {
		if p.Kind == events.PartText {
			texts = append(texts, p.Text)
		} else {
			attachments = append(attachments, p)
		}
	}
	return strings.Join(texts, "\n"), attachments
}
