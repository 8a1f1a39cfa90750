// Package exchange writes a session in formats of other programs: chats of OpenAI's format, session files of pi, Markdown, HTML,
// OpenTelemetry traces, and the record that audits exchange, as JSON, CBOR and signed. It reads histories and writes nothing to them. Each writer
// of a format that cannot hold a session returns what is lost.
//
// All writers take a [Document], which has the conversation with every body, and what happened beside it. What the model and
// users wrote is data: the writers escape it for their format, and the HTML page has no script and loads nothing.
package exchange
