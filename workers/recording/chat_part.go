package recording

import (
	"errors"
	"strings"

	"github.com/lash-go/lash/events"
)

// chatPart reads a part of any role's content.
func chatPart(kind string, o object) (events.Part, error) {
	switch kind {
	case "text":
		return textAt(o, "text")
	case "refusal":
		return textAt(o, "refusal")
	case "image_url":
		return chatImage(o)
	case "input_audio":
		return chatAudio(o)
	default:
		return events.Part{}, nil
	}
}

// chatImage reads {url}, or the bare URL that some exporters write.
func chatImage(o object) (events.Part, error) {
	if kindOf(o["image_url"]) == '{' {
		inner, err := o.object("image_url")
		if err != nil {
			return events.Part{}, err
		}
		url, err := inner.must("url")
		return imageAt(url), err
	}
	url, err := o.must("image_url")
	return imageAt(url), err
}

// imageAt decodes base64 from a data URL. For any other URL the type is unknown.
func imageAt(url string) events.Part {
	if data, ok := strings.CutPrefix(url, "data:"); ok {
		if media, body, ok := strings.Cut(data, ";base64,"); ok && media != "" {
			return events.Part{Kind: events.PartAttachment, MediaType: media, Text: body}
		}
	}
	return events.Part{Kind: events.PartAttachment, MediaType: "image/*", Text: url}
}

func chatAudio(o object) (events.Part, error) {
	inner, err := o.object("input_audio")
	if err != nil {
		return events.Part{}, err
	}
	if inner == nil {
		return events.Part{}, errors.New("no input_audio")
	}
	data, err := inner.must("data")
	if err != nil {
		return events.Part{}, err
	}
	format, err := inner.must("format")
	return events.Part{Kind: events.PartAttachment, MediaType: "audio/" + format, Text: data}, err
}
