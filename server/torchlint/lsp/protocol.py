"""The JSON-RPC layer: pygls's, with what it leaves to the user or does slowly done here.

pygls keeps documents with line ends and positions of its own; here they never reach it (`torchlint.lsp.documents`
holds them). A bad message is answered and logged and costs nothing else; after `shutdown` requests are refused, as the
protocol demands, and not just left without an answer.
"""

from __future__ import annotations

import contextvars
import json
import sys
from typing import TYPE_CHECKING, Any

from cattrs.errors import ClassValidationError
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError
from pygls.protocol import LanguageServerProtocol, lsp_method

if TYPE_CHECKING:
    from torchlint.lsp.server import Server

_OWN_SYNCHRONIZATION = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)


class Json(str):
    """A result or parameters that are JSON text already."""

    __slots__ = ()


class Protocol(LanguageServerProtocol):
    """Reads one message at a time and answers every request exactly once."""

    _server: Server
    _initialized = False

    def _register_builtin_features(self) -> None:
        super()._register_builtin_features()  # type: ignore[no-untyped-call]
        for method in _OWN_SYNCHRONIZATION:
            del self.fm.builtin_features[method]

    def receive(self, body: bytes) -> None:
        """Handle the body of one message."""
        try:
            message = json.loads(body)
        except ValueError as error:
            self._refuse(None, types.ErrorCodes.ParseError, f"not JSON: {error}")
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != self.VERSION:
            self._refuse(None, types.ErrorCodes.InvalidRequest, "not a JSON-RPC 2.0 message")
            return
        if "method" not in message:
            self._receive_response(message)
            return
        identifier, method = message.get("id"), message["method"]
        if not isinstance(method, str):
            self._refuse(identifier, types.ErrorCodes.InvalidRequest, "the method is not a string")
        elif self._is_expected(method):
            self._receive_call(message, identifier, method)
        elif identifier is not None:
            code = types.ErrorCodes.InvalidRequest if self._shutdown else types.ErrorCodes.ServerNotInitialized
            reason = "the server is shutting down" if self._shutdown else "the server is not initialized"
            self._refuse(identifier, code, reason)

    def _is_expected(self, method: str) -> bool:
        if method == types.EXIT:
            return True
        if method == types.INITIALIZE:
            return not self._shutdown and not self._initialized
        return self._initialized and not self._shutdown

    def _receive_call(self, message: dict[str, Any], identifier: Any, method: str) -> None:
        try:
            call = self.structure_message(message)
        except Exception as error:
            cause = error.__cause__ or error
            detail = "; ".join(_reasons(cause)) if isinstance(cause, ClassValidationError) else str(cause)
            self._refuse(identifier, types.ErrorCodes.InvalidParams, f"{method}: invalid parameters: {detail}")
            return
        self._initialized = self._initialized or method == types.INITIALIZE
        context = contextvars.copy_context()
        params = getattr(call, "params", None)
        if identifier is None:
            context.run(self._handle_notification, method, params)
        else:
            context.run(self._handle_request, identifier, method, params)

    def _receive_response(self, message: dict[str, Any]) -> None:
        identifier = message.get("id")
        if identifier not in self._request_futures:
            return
        if error := message.get("error"):
            fields = error if isinstance(error, dict) else {}
            code, text = fields.get("code", 0), str(fields.get("message", error))
            self._handle_response(identifier, None, types.ResponseError(code=code, message=text))
            return
        if (
            message.get("result") is None
        ):  # also where the protocol wants more: it is what clients say that know nothing
            self._handle_response(identifier, None)
            return
        try:
            answer = self.structure_message(message)
        except Exception as error:
            refused = types.ResponseError(types.ErrorCodes.InvalidParams, str(error.__cause__ or error))
            self._handle_response(identifier, None, refused)
            return
        self._handle_response(identifier, answer.result)

    def _refuse(self, identifier: Any, code: types.ErrorCodes, reason: str) -> None:
        """Answer a request with an error; what is no request is only logged."""
        answerable = identifier is not None or code in (types.ErrorCodes.ParseError, types.ErrorCodes.InvalidRequest)
        if answerable:
            error = {"code": code.value, "message": reason}
            self._send(f'{{"jsonrpc":"2.0","id":{json.dumps(identifier)},"error":{json.dumps(error)}}}')
        self._server.log.warning(f"ignored a message from the client: {reason}")

    def notify_json(self, method: str, params: Json) -> None:
        """Send a notification whose parameters are JSON text."""
        self._send(f'{{"jsonrpc":"2.0","method":"{method}","params":{params}}}')

    def _send_response(
        self, msg_id: str | int, result: Any | None = None, error: types.ResponseError | None = None
    ) -> None:
        if error is None and isinstance(result, Json):
            self._send(f'{{"jsonrpc":"2.0","id":{json.dumps(msg_id)},"result":{result}}}')
            return
        super()._send_response(msg_id, result, error)

    def _send(self, text: str) -> None:
        body = text.encode()
        if self.writer is not None:
            self.writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def _handle_cancel_notification(self, msg_id: str | int) -> None:
        if msg_id in self._request_futures:
            super()._handle_cancel_notification(msg_id)

    def _send_handler_result(self, future: Any, *, msg_id: str | int) -> None:
        """Send what a handler returned or raised; only what it did not raise on purpose is reported."""
        self._request_futures.pop(msg_id, None)
        if future.cancelled():
            cancelled = types.ResponseError(types.LSPErrorCodes.RequestCancelled, "the request was cancelled")
            self._send_response(msg_id, error=cancelled)
            return
        error = future.exception()
        if error is None:
            self._send_response(msg_id, future.result())
        elif isinstance(error, JsonRpcException):
            self._send_response(msg_id, error=error.to_response_error())
        else:
            internal = types.ResponseError(types.ErrorCodes.InternalError, f"{type(error).__name__}: {error}")
            self._send_response(msg_id, error=internal)
            self._server.report_server_error(error, JsonRpcInternalError)

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Any:
        """Refuse everything from now on; requests that are under way end as cancelled."""
        self._shutdown = True
        current = self.msg_id
        for identifier, future in list(self._request_futures.items()):
            if identifier != current and not future.done():
                future.cancel()
        self._server.leave()

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: Any) -> Any:
        """End the process: with status 0 after a shutdown, else with 1."""
        self._server.stop(0 if self._shutdown else 1)


def _reasons(error: ClassValidationError) -> list[str]:
    from cattrs import transform_error

    try:
        return [str(reason) for reason in transform_error(error)][:3]
    except Exception:  # it knows not every kind of error
        return [str(sys.exc_info()[1])]
