package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
)

func storeBlob(c *httpRequest) (reply, error) {
	most := c.s.cfg.MaxBlobBytes
	data, err := c.readUpTo(most, copiesOfBlob)
	if err != nil {
		return reply{}, err
	}
	ref, err := c.s.cfg.Service.StoreBlob(c.Context(), c.session, data)
	return reply{status: http.StatusCreated, body: blobJSON(ref), location: "/v1/sessions/" + string(c.session) + "/blobs/" + ref.Digest}, err
}

func getBlob(c *httpRequest) (reply, error) {
	refs, err := c.s.cfg.Service.FindBlobs(c.Context(), c.session, c.PathValue("digest"))
	if err != nil {
		return reply{}, err
	}
	ref := refs[0]
	if c.Method == http.MethodHead {
		return reply{status: http.StatusOK, size: int(ref.Size)}, nil
	}
	out := reply{status: http.StatusOK}
	if ref.Size > smallBody {
		if err := memory.Take(c.Context(), copiesOfBlob*ref.Size); err != nil {
			return reply{}, err
		}
	}
	out.data, err = c.s.cfg.Service.ReadBlob(c.Context(), c.session, ref.Digest)
	out.size = len(out.data)
	return out, err
}

// sendBytes is the size of one write of a body, in bytes.
const sendBytes = 256 << 10

// send writes the reply's bytes in chunks, within the speed of the client and the caller's byte limit.
func (s *Server) send(c *httpRequest, out reply) {
	h, conn := c.w.Header(), http.NewResponseController(c.w)
	h.Set("Content-Type", octets)
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Length", strconv.Itoa(out.size))
	c.w.WriteHeader(out.status)
	for data := out.data; len(data) > 0; {
		piece := data[:min(len(data), sendBytes)]
		if awaitBytes(c.Context(), c.limiter, len(piece)) != nil {
			return // the client sees an incomplete body
		}
		_ = conn.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout)) // a test recorder has no deadline
		if _, err := c.w.Write(piece); err != nil {
			return
		}
		data = data[len(piece):]
	}
}

// named refuses references to bodies that the session's history does not name, in all messages of a request. A caller
// therefore cannot refer to a body that it may not read. The history is searched once for all messages. parts returns
// the parts of message i, with their field.
func (c *httpRequest) named(messages int, parts func(i int) (field string, list []givenPartJSON)) error {
	var fields, digests []string
	var sizes []int64
	for i := range messages {
		field, list := parts(i)
		for j, p := range list {
			if p.Blob == nil {
				continue
			}
			field := fmt.Sprintf("%s[%d].blob", field, j)
			if p.Text != "" {
				return invalidParam(field, "is not allowed with a text")
			}
			fields, digests, sizes = append(fields, field), append(digests, p.Blob.Digest), append(sizes, p.Blob.Size)
		}
	}
	if len(digests) == 0 {
		return nil
	}
	ctx, cancel := context.WithDeadline(c.Context(), c.responseDeadline())
	defer cancel()
	refs, err := c.s.cfg.Service.FindBlobs(ctx, c.session, digests...)
	for i := range refs {
		if refs[i].Size != sizes[i] {
			return invalidParam(fields[i]+".size", fmt.Sprintf("is %d, the body has %d bytes", sizes[i], refs[i].Size))
		}
	}
	return err
}

// parts converts the parts of a message in a request; their bodies may be outside the log.
func (c *httpRequest) parts(field string, list []givenPartJSON) ([]events.Part, error) {
	return eventParts(list), c.named(1, func(int) (string, []givenPartJSON) { return field, list })
}

// nodes converts the nodes in a request.
func (c *httpRequest) nodes(list []givenNodeJSON) ([]api.AppendNode, error) {
	return apiNodes(list), c.named(len(list), func(i int) (string, []givenPartJSON) {
		if list[i].Message == nil {
			return "", nil
		}
		return fmt.Sprintf("nodes[%d].message.parts", i), list[i].Message.Parts
	})
}

// newNodes converts the nodes of a new session, whose history names no bodies yet.
func newNodes(field string, list []givenNodeJSON) ([]api.AppendNode, error) {
	for i := range list {
		for j := 0; list[i].Message != nil && j < len(list[i].Message.Parts); j++ {
			if list[i].Message.Parts[j].Blob != nil {
				return nil, invalidParam(fmt.Sprintf("%s[%d].message.parts[%d].blob", field, i, j), "names a body, of which a new session has none: store it there")
			}
		}
	}
	return apiNodes(list), nil
}
