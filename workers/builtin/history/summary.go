package history

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// summary asks for a summary of messages. Where they have more tokens than capacity, or the model finds them too many, it
// asks for one of their first part, then for one of that and the next part, and so on. A capacity below 1 is unknown.
func summary(ctx context.Context, host plugin.CompletionHost, list []events.Message, capacity int64) (said string, err error) {
	for len(list) > 0 {
		n := len(list)
		for capacity > 0 && n > 1 && projector.Tokens(list[:n]) > capacity {
			n--
		}
		text, err := wholeSummary(ctx, host, said, list[:n])
		switch {
		case errors.Is(err, api.ErrContextOverflow) && n > 1:
			capacity = projector.Tokens(list[:n]) / 2
			continue
		case err != nil:
			return "", err
		}
		said, list = text, list[n:]
	}
	return said, nil
}

// wholeSummary asks for a summary, and once more where the reply is none: half a summary must not take the place of a
// conversation.
func wholeSummary(ctx context.Context, host plugin.CompletionHost, before string, list []events.Message) (string, error) {
	request, why := summaryRequest(before, list), ""
	for range 2 {
		reply, err := host.Complete(ctx, plugin.CompletionRequest{Messages: request}, usageSource)
		if err != nil {
			return "", err
		}
		if why = unfit(reply); why == "" {
			return reply.Text, nil
		}
		request = append(request, plugin.Say(events.RoleUser, "Your last reply "+why+". Reply with a whole summary, and a shorter one."))
	}
	return "", fmt.Errorf("%w: the model's summary %s, also when it was asked once more: the conversation stays as it was", api.ErrCompletion, why)
}

// unfit says why a reply is no summary; empty if it is one.
func unfit(c plugin.Completion) string {
	switch {
	case c.Stop == events.StopOutputLimit:
		return "was cut off by the limit of its length"
	case c.Stop == events.StopContentFilter:
		return "was refused"
	case strings.TrimSpace(c.Text) == "":
		return "was blank"
	case c.Stop != events.StopEnd && c.Stop != "":
		return fmt.Sprintf("ended with %q", c.Stop)
	}
	return ""
}

func summarySaid(text string) events.Message {
	return plugin.Say(events.RoleAssistant, "Summary of the conversation so far:\n\n"+text)
}

// summaryRequest is the request for a summary. Calls and their results become text, because the request has no tools.
func summaryRequest(before string, list []events.Message) []events.Message {
	out := []events.Message{plugin.Say(events.RoleSystem, "You summarise conversations between a user and an assistant that uses tools.")}
	if before != "" {
		out = append(out, summarySaid(before))
	}
	for _, m := range list {
		flat := events.Message{Role: m.Role}
		for _, p := range m.Parts {
			switch p.Kind {
			case events.PartText:
				flat.Parts = append(flat.Parts, events.Part{Kind: events.PartText, Text: p.Text, Blob: p.Blob})
			case events.PartToolCall:
				flat.Parts = append(flat.Parts, text(fmt.Sprintf("[called %s %s]", p.Tool, p.Args)))
			case events.PartToolResult:
				flat.Parts = append(flat.Parts, text("[result of "+p.Tool+"]\n"), events.Part{Kind: events.PartText, Text: p.Text, Blob: p.Blob})
			case events.PartAttachment:
				flat.Parts = append(flat.Parts, text("[attachment "+p.MediaType+"]"))
			case events.PartReasoning: // not needed any more
			}
		}
		if len(flat.Parts) > 0 {
			out = append(out, flat)
		}
	}
	return append(out, plugin.Say(events.RoleUser, "Summarise our conversation for whoever carries on with it: what is wanted, "+
		"what was done and decided, what was learnt (names, paths, values), what is still to do. Reply with the summary alone."))
}
