package bus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// readRequest is a read of a user of another account, as the server's API takes it. Its cost is fixed: the user chooses what is read, and
// how much up to the limits of a batch.
type readRequest struct {
	subject string
	data    []byte
	batch   bool // has several answers, the last with a status
	list    bool // costs more the more sessions there are
}

// directQuery is the body of a direct get. Exactly one of Seq, Last and Lasts is set.
type directQuery struct {
	Seq       uint64   `json:"seq,omitempty"`
	Batch     int      `json:"batch,omitempty"` // messages; 0: one message, without an end of a batch
	MaxBytes  int      `json:"max_bytes,omitempty"`
	Next      string   `json:"next_by_subj,omitempty"`
	NoHeaders bool     `json:"no_hdr,omitempty"`
	Last      string   `json:"last_by_subj,omitempty"`
	Lasts     []string `json:"multi_last,omitempty"`
}

// parseRead reads a request that has a subject of the server's API, without its first tokens. It accepts the requests of a bus of
// [OpenReader], and encodes them again. Errors: [events.ErrInvalid].
func (n names) parseRead(of Readers, api string, data []byte) (readRequest, error) {
	r := readRequest{subject: apiAll + api}
	var body any
	var err error
	switch verb, stream, subject := splitAPI(api); {
	case api == "STREAM.NAMES":
		r.list = true
		body, err = n.parseNames(data)
	case !n.isReadable(of, stream):
		err = refusedRead("stream", fmt.Sprintf("%q is none that may be read", stream))
	case verb == "STREAM.INFO" && subject == "":
		body, r.list, err = n.parseInfo(data)
	case verb == "STREAM.MSG.GET" && subject == "" && stream == n.archiveStream():
		var q leaderQuery
		if err = decodeRead(data, &q); err == nil && (q.Seq != 0 || q.Next != "" || !isLiteral(q.Last)) {
			err = refusedRead("last_by_subj", "has to be the only field, and one subject")
		}
		body = q
	case verb == "DIRECT.GET" && subject != "":
		if len(data) > 0 || !isLiteral(subject) {
			err = refusedRead("subject", "has to be one subject, without a body")
		}
	case verb == "DIRECT.GET":
		var q directQuery
		if err = decodeRead(data, &q); err == nil {
			err = q.check()
		}
		body, r.batch = q, q.Batch > 0 || len(q.Lasts) > 0
	default:
		err = refusedRead("subject", "is none of a read")
	}
	if err == nil && body != nil {
		r.data, err = json.Marshal(body)
	}
	return r, err
}

// splitAPI splits a subject of the server's API. stream is empty for one without a stream, and subject is what follows it.
func splitAPI(api string) (verb, stream, subject string) {
	for _, verb := range []string{"STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET"} {
		if rest, ok := strings.CutPrefix(api, verb+"."); ok {
			stream, subject, _ := strings.Cut(rest, ".")
			return verb, stream, subject
		}
	}
	return "", "", ""
}

// isReadable reports whether readers need a stream.
func (n names) isReadable(of Readers, stream string) bool {
	if _, ok := n.sessionOf(stream); ok {
		return true
	}
	shared := []string{n.archiveStream(), n.blobStream()}
	for _, bucket := range []string{n.directory(), n.catalogs(), n.snapshots(), n.index()} {
		shared = append(shared, n.rowStream(bucket))
	}
	if of == Clients { // what is streamed is not history
		shared = append(shared, n.deltaStream())
	}
	return slices.Contains(shared, stream)
}

func (n names) parseNames(data []byte) (any, error) {
	var q struct {
		Offset  uint   `json:"offset"`
		Subject string `json:"subject"`
	}
	err := decodeRead(data, &q)
	if err == nil && q.Subject != n.sessions() {
		err = refusedRead("subject", "has to be "+n.sessions())
	}
	return q, err
}

// parseInfo reads a request for the state of a stream. list: also for its subjects, which may be many.
func (n names) parseInfo(data []byte) (body any, list bool, err error) {
	if len(data) == 0 {
		return nil, false, nil
	}
	var q struct {
		Offset uint   `json:"offset"`
		Filter string `json:"subjects_filter,omitempty"`
	}
	if err := decodeRead(data, &q); err != nil {
		return nil, false, err
	}
	lists := []string{n.archiveAll(), n.erasedAll()}
	for _, bucket := range []string{n.directory(), n.catalogs(), n.snapshots(), n.index()} {
		lists = append(lists, n.rows(bucket))
	}
	list = slices.Contains(lists, q.Filter)
	if q.Filter != "" && !list && !isLiteral(q.Filter) {
		err = refusedRead("subjects_filter", "has to be one subject, or one of "+strings.Join(lists, " "))
	}
	return q, list, err
}

func (q *directQuery) check() error {
	switch {
	case len(q.Lasts) > 1 || len(q.Lasts) == 1 && (!isLiteral(q.Lasts[0]) || q.Seq != 0 || q.Last != "" || q.Next != "" || q.Batch != 0):
		return refusedRead("multi_last", "has to be the only field, and one subject")
	case q.Last != "" && (!isLiteral(q.Last) || q.Seq != 0 || q.Next != "" || q.Batch != 0):
		return refusedRead("last_by_subj", "has to be the only field, and one subject")
	case len(q.Lasts) == 0 && q.Last == "" && q.Seq == 0:
		return refusedRead("seq", "is missing")
	case q.Next != "" && q.Next != ">" && !isLiteral(q.Next):
		return refusedRead("next_by_subj", "has to be one subject, or >")
	case q.Batch < 0 || q.Batch > valueMessages:
		return refusedRead("batch", fmt.Sprintf("is %d, limit is %d", q.Batch, valueMessages))
	case q.Batch > 0 && (q.MaxBytes <= 0 || q.MaxBytes > valueBytes):
		return refusedRead("max_bytes", fmt.Sprintf("is %d, limit is %d", q.MaxBytes, valueBytes))
	}
	return nil
}

func refusedRead(field, reason string) error {
	return &events.FieldError{Field: field, Reason: reason, Err: events.ErrInvalid}
}

func decodeRead(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return refusedRead("body", err.Error())
	}
	return nil
}

// isLiteral reports whether a subject has no wildcards.
func isLiteral(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || token == "*" || token == ">" {
			return false
		}
	}
	return true
}
