package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

// show adds attachments to the response.
func (r *run) show(args starlark.Tuple, kwargs []starlark.Tuple) error {
	if len(args) == 0 || len(kwargs) > 0 {
		return errors.New("show takes attachments, as attachments() and with_attachments(..) give them")
	}
	for _, arg := range args {
		data, err := r.meter.toJSON(arg)
		if err != nil {
			return fmt.Errorf("show: %w", err)
		}
		var a Attachment
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&a); err != nil || (a.Digest == "") == (a.URL == "") {
			return fmt.Errorf("show takes attachments, as attachments() and with_attachments(..) give them, not %s", describe(arg))
		}
		if len(r.shown) >= maxShown {
			return r.meter.stop("the program showed too many attachments (limit %d); show those that you need to see", maxShown)
		}
		r.shown = append(r.shown, a)
	}
	return nil
}
