;; Run by test_emacs.py inside a batch Emacs, after the snippet of docs/editors.md: does what a user does with a file
;; and writes down what the user sees.

(require 'eglot)
(require 'json)

(defvar seen nil "What the user sees, as an alist.")

(defun note (name value)
  (push (cons name value) seen))

(defun wait-for (what condition)
  (let ((deadline (+ (float-time) 60)))
    (while (not (funcall condition))
      (when (> (float-time) deadline)
        (error "waited in vain for %s" what))
      (accept-process-output nil 0.05)
      ;; Flymake, too, waits for a pause in the typing.
      (when (bound-and-true-p flymake-mode) (flymake-start)))))

(defun run ()
  (let ((eglot-sync-connect 60) (eglot-autoshutdown nil) (eglot-confirm-server-initiated-edits nil))
    (find-file (getenv "TORCHLINT_FILE"))
    (python-mode)
    (apply #'eglot (eglot--guess-contact))
    (wait-for "findings" (lambda () (flymake-diagnostics)))
    (let ((finding (car (flymake-diagnostics))))
      (note 'count (length (flymake-diagnostics)))
      (note 'finding (flymake-diagnostic-text finding))
      (note 'flagged (buffer-substring-no-properties (flymake-diagnostic-beg finding)
                                                     (flymake-diagnostic-end finding)))
      (goto-char (1+ (flymake-diagnostic-beg finding)))
      (let ((hover (jsonrpc-request (eglot-current-server) :textDocument/hover
                                    (eglot--TextDocumentPositionParams))))
        (note 'hover (plist-get (plist-get hover :contents) :value)))
      (let ((preferred (seq-find (lambda (action) (eq t (plist-get action :isPreferred)))
                                 (jsonrpc-request (eglot-current-server) :textDocument/codeAction
                                                  (list :textDocument (eglot--TextDocumentIdentifier)
                                                        :range (list :start (eglot--pos-to-lsp-position)
                                                                     :end (eglot--pos-to-lsp-position))
                                                        :context (list :diagnostics []))))))
        ;; Newer versions want to know who asks.
        (apply #'eglot--apply-workspace-edit (plist-get preferred :edit)
               (when (= 2 (car (func-arity #'eglot--apply-workspace-edit))) '(code-action))))
      ;; Eglot tells the server when Emacs has been idle for a moment, which a batch Emacs never is.
      (eglot--signal-textDocument/didChange)
      (wait-for "the end of the finding" (lambda () (null (flymake-diagnostics))))
      (note 'text (buffer-substring-no-properties (point-min) (point-max)))
      (eglot-shutdown (eglot-current-server)))))

(condition-case problem (run) (error (note 'failed (error-message-string problem))))
(with-temp-file (getenv "TORCHLINT_RESULT")
  (set-buffer-file-coding-system 'utf-8)
  (insert (json-encode seen)))
(set-buffer-modified-p nil)
(kill-emacs 0)
