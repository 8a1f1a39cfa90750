package api

import (
	"errors"
	"strconv"

	"github.com/lash-go/lash/events"
)

// details are the data of an error in its wire form; numbers in decimal.
type details = map[string]string

// detailed maps an error with data to its wire form.
type detailed struct {
	code   string // empty: the code of the sentinel that the error is
	class  Class  // with code
	encode func(error) details
	decode func(b ErrorBody, sentinel error) error // sentinel: of the body's code; nil: it has none
}

// withData is the one table of errors with data. For an error that matches several rows the first row counts. encode
// and decode return nil for an error that is not the row's.
//
//nolint:gochecknoglobals // a read-only table
var withData = []detailed{
	coding("stale_branch", ClassConflict, func(e *StaleBranchError) details {
		return details{"required": clip(string(e.Required)), "leaf": clip(string(e.Leaf))}
	}, func(d details) *StaleBranchError {
		return &StaleBranchError{Required: events.NodeID(d["required"]), Leaf: events.NodeID(d["leaf"])}
	}),
	coding("generation", ClassConflict, func(e *GenerationError) details {
		return details{"expected": decimal(e.Expected), "actual": decimal(e.Actual)}
	}, func(d details) *GenerationError {
		return &GenerationError{Expected: number[int64](d["expected"]), Actual: number[int64](d["actual"])}
	}),
	coding("moved", ClassConflict, func(e *events.ConflictError) details {
		return details{"session": string(e.Session), "expected": decimal(e.Expected), "last": decimal(e.Last)}
	}, func(d details) *events.ConflictError {
		return &events.ConflictError{Session: events.SessionID(d["session"]), Expected: number[events.Seq](d["expected"]), Last: number[events.Seq](d["last"])}
	}),
	coding("cursor", ClassConflict, func(e *CursorError) details {
		return details{"session": string(e.Session), "cursor": decimal(e.Cursor), "last": decimal(e.Last)}
	}, func(d details) *CursorError {
		return &CursorError{Session: events.SessionID(d["session"]), Cursor: number[events.Seq](d["cursor"]), Last: number[events.Seq](d["last"])}
	}),
	coding("turn_rejected", ClassConflict, func(e *TurnRejectedError) details {
		return details{"turn": string(e.Turn), "by": string(e.By)}
	}, func(d details) *TurnRejectedError {
		return &TurnRejectedError{Turn: events.TurnID(d["turn"]), By: events.TurnID(d["by"])}
	}),
	coding("session_erased", ClassNotFound, func(e *events.ErasedError) details {
		return details{"session": string(e.Session), "at": decimal(e.At), "by": clip(e.By), "reason": clip(e.Reason)}
	}, func(d details) *events.ErasedError {
		return &events.ErasedError{Session: events.SessionID(d["session"]), At: number[events.Millis](d["at"]), By: d["by"], Reason: d["reason"]}
	}),
	coding("commits_lost", ClassLost, func(e *events.LostError) details {
		return details{"session": string(e.Session), "from": decimal(e.From), "to": decimal(e.To)}
	}, func(d details) *events.LostError {
		return &events.LostError{Session: events.SessionID(d["session"]), From: number[events.Seq](d["from"]), To: number[events.Seq](d["to"])}
	}),
	coding("limit", ClassBusy, func(e *LimitError) details {
		return details{"what": e.What, "limit": strconv.Itoa(e.Limit)}
	}, func(d details) *LimitError {
		return &LimitError{What: d["what"], Limit: number[int](d["limit"])}
	}),
	// The sentinels of these errors set their codes; the rows add data.
	{encode: encoder(func(e *TurnFailedError) details {
		return details{"turn": string(e.Turn), "issue_kind": e.Issue.Kind, "issue_code": e.Issue.Code, "issue_message": clip(e.Issue.Message)}
	}), decode: func(b ErrorBody, _ error) error {
		d := b.Details
		if d["turn"] == "" {
			return nil
		}
		return &TurnFailedError{Turn: events.TurnID(d["turn"]), Issue: events.Issue{Kind: d["issue_kind"], Code: d["issue_code"], Message: d["issue_message"]}}
	}},
	{encode: encoder(func(e *ProviderError) details {
		return details{"session": string(e.Session), "provider": e.Provider, "actual": e.Actual, "known": clip(e.Known)}
	}), decode: func(b ErrorBody, _ error) error {
		d := b.Details
		if providerError(b.Code) == nil || d == nil {
			return nil
		}
		return &ProviderError{Session: events.SessionID(d["session"]), Provider: d["provider"], Actual: d["actual"], Known: d["known"]}
	}},
	{encode: encoder(func(e *events.FieldError) details {
		return details{"field": clip(e.Field), "reason": clip(e.Reason)}
	}), decode: func(b ErrorBody, sentinel error) error {
		d := b.Details
		if d["field"] == "" || sentinel == nil {
			return nil
		}
		return &events.FieldError{Field: d["field"], Reason: d["reason"], Err: sentinel}
	}},
}

// coding is the row of an error that has its own code.
func coding[E error](code string, class Class, encode func(E) details, decode func(details) E) detailed {
	return detailed{code, class, encoder(encode), func(b ErrorBody, _ error) error {
		if b.Code != code {
			return nil
		}
		return decode(b.Details)
	}}
}

func encoder[E error](encode func(E) details) func(error) details {
	return func(err error) details {
		if e, ok := errors.AsType[E](err); ok {
			return encode(e)
		}
		return nil
	}
}

// detail returns the row and the data of an error with data; the zero row for others.
func detail(err error) (detailed, details) {
	for _, row := range withData {
		if d := row.encode(err); d != nil {
			return row, d
		}
	}
	return detailed{}, nil
}

func decimal[N ~int64 | ~uint64](n N) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}

func number[N ~int | ~int64 | ~uint64](text string) N {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return N(n)
	}
	n, _ := strconv.ParseInt(text, 10, 64) // invalid text is 0
	return N(n)
}
