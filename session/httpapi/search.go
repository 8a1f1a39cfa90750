package httpapi

import (
	"strconv"

	"github.com/lash-go/lash/session/api"
)

// textParam is the name of the parameter that has a searched text.
const textParam = "text"

// searchParams are the parameters of a search.
func searchParams() []param {
	list := func(name, description string, most int) param {
		return param{name: name, schema: object{"type": "array", "items": object{"type": "string"}}, description: description + "; at most " + strconv.Itoa(most) + " times"}
	}
	upTo := func(name, description string, most, otherwise int) param {
		return param{name: name, schema: object{"type": "integer", "minimum": 1, "maximum": most, "default": otherwise}, description: description}
	}
	return []param{
		list(textParam, "a text that occurs in the turn, without regard to case, of 1 to "+strconv.Itoa(api.MaxSearchTextBytes)+" bytes", api.MaxSearchTexts),
		text("tool", "name of a tool that the turn called"),
		text("actor", "actor of a request, an answer or another commit of the turn: client:alice, or alice"),
		text("outcome", "outcome of the turn, or of a call in it: finished, cancelled, failure, lost, granted, refused and so on"),
		number("since_ms", "events at or after this time, in milliseconds since 1970"),
		number("until_ms", "events before or at this time, in milliseconds since 1970"),
		list(labelParam, "NAME=VALUE, a label of the sessions; NAME= for any value", api.MaxQueryLabels),
		upTo("matches", "number of turns of a session", api.MaxSearchMatches, api.DefaultSearchMatches),
		upTo("limit", "number of sessions", api.MaxSearchPage, api.DefaultSearchPage), cursorParam,
	}
}
